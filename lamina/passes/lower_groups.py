"""Build a kernel for each group, and turn calls on tensors into launches on buffers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from lamina.dialects import nn, plan, tile
from lamina.dialects.cache import PagesType
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents, tensor
from lamina.dialects.tile import values
from lamina.errors import LoweringError
from lamina.passes.decompose_composites import decompose_in
from lamina.passes.functions import argument_attributes, find_function, result_attributes
from lamina.passes.groups import Groups, before_reshapes, is_assumed
from lamina.passes.hosted_groups import check_fallback, say_hosted
from lamina.passes.kernels.anchors import ANCHORS
from lamina.passes.kernels.build import build_kernel
from lamina.passes.kernels.group_key import Key
from lamina.passes.kernels.register_tile import TileDoesNotFit
from lamina.passes.kernels.rows import STATISTICS
from lamina.passes.known import KNOWN
from lamina.passes.own_outputs import own_outputs
from lamina.passes.rewriting import inherit_source
from lamina.passes.shared_groups import Shape, shared_groups


@dataclass(frozen=True)
class LowerGroupsPass(ModulePass):
    """Groups are `tile.kernel`s; `@forward` launches them on buffers and gives nothing back.

    Groups that differ in nothing but the names of their symbols, or of up to 24 nodes that an index
    is refused by, are one kernel; convolutions and pools also where images have other extents,
    which are arguments, products with packed weights and convolutions where channels are others
    that a schedule divides alike, or windows lie otherwise, and groups that go through rows where
    extents and ranks are others that leave what they do as it is. Outputs are arguments after all
    others. A group that is marked to run on the host, or that no builder takes, is run by its NumPy
    meaning (`plan.host`), with a warning that names it; `fallback=error` refuses them all in one
    sentence. A tile that does not fit is refused.
    """

    name = "lower-groups"

    fallback: str = "host"

    def __post_init__(self) -> None:
        """Refuse a fallback that there is not: `InputError`."""
        check_fallback(self.fallback, self.name)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        function = find_function(op, "forward")
        if function is None:
            return
        own_outputs(Groups.of(op), function)
        made: dict[Key, str] = {}
        kernels: dict[str, _Kernel] = {}
        hosted: dict[str, str] = {}
        groups = Groups.of(op).by_name
        for name, shared in shared_groups(groups).items():
            group = groups[name]
            if group.host is not None or shared.key not in made:
                lowered = _lower(shared.group)
                if isinstance(lowered, str):
                    hosted[name] = lowered
                    continue
                op.body.block.insert_op_before(lowered, group)
                made[shared.key] = name
            group.detach()
            group.erase()
            symbols = [*shared.symbols, tile.WORKERS]
            kernels[name] = _Kernel(made[shared.key], symbols, shared.shapes)
        say_hosted(function, groups, hosted, self.fallback)
        _Forward(function, kernels).lower()


@dataclass(frozen=True)
class _Kernel:
    """The kernel of a group, which may be another group's too, what its symbols are, and shapes."""

    name: str
    symbols: list[str]
    shapes: list[Shape | None]


def _lower(group: nn.GroupOp) -> tile.KernelOp | str:
    """Return a group's kernel, or why it runs on the host."""
    if group.host is not None:
        return group.host.data
    work = group.clone()
    # What has no decomposition stays in any case.
    decompose_in(work, keep={op.name for op in (*KNOWN.tile_rules(), *STATISTICS, *ANCHORS)})
    try:
        return build_kernel(work, group.sym_name.data)
    except TileDoesNotFit:
        raise
    except LoweringError as error:
        return str(error)


class _Forward:
    """`@forward` under rewriting: which buffer holds each value."""

    def __init__(self, function: FuncOp, kernels: dict[str, _Kernel]) -> None:
        self.function, self.kernels = function, kernels
        self.buffers: dict[SSAValue, SSAValue] = {}
        self.symbols: set[str] = set()

    def lower(self) -> None:
        """Replace the function by one on buffers."""
        old = self.function
        block, attributes = Block(), list[DictionaryAttr]()
        for arg, named in argument_attributes(old):
            self.symbols |= symbols_of(arg.type)
            self.buffers[arg] = self._argument(block, arg.type, arg.name_hint)
            attributes.append(named)
        end = old.body.block.last_op
        assert isinstance(end, ReturnOp)
        outputs: list[SSAValue | None] = []
        for value, named in zip(end.arguments, result_attributes(old), strict=True):
            if isinstance(value.type, PagesType):
                outputs.append(None)
                continue
            outputs.append(self._argument(block, value.type, "out"))
            attributes.append(named)
        self._body(old.body.block, block, outputs)
        block.add_op(plan.ReturnOp())
        new = FuncOp(
            "forward",
            ([arg.type for arg in block.args], []),
            Region(block),
            arg_attrs=ArrayAttr(attributes),
        )
        new.attributes.update(old.attributes)
        module_block = old.parent
        assert module_block is not None
        module_block.insert_op_before(new, old)
        old.detach()
        old.erase(safe_erase=False)

    def _argument(self, block: Block, type: Attribute, hint: str | None) -> SSAValue:
        arg = block.insert_arg(buffer_type(type), len(block.args))
        arg.name_hint = hint
        return arg

    def _body(self, old: Block, new: Block, outputs: list[SSAValue | None]) -> None:
        """Lower the operations of `old`; its results go to `outputs`."""
        end = old.last_op
        assert end is not None
        for value, buffer in zip(end.operands, outputs, strict=True):
            if buffer is not None:
                self._place(value, buffer, new)
        for op in list(old.ops)[:-1]:
            match op:
                case nn.ReshapeOp():
                    self._view(op, new)
                case nn.CallOp():
                    self._call(op, new)
                case nn.SwitchOp():
                    self._switch(op, new)
                case nn.BindOp():
                    self._bind(op, new)
                case _:
                    raise LoweringError(f"{op.name} is in no group: outline-groups comes first")

    def _place(self, value: SSAValue, buffer: SSAValue, block: Block) -> None:
        """Say where a result is to be put: in `buffer`, under the type that its call gives it."""
        self.buffers[value] = buffer
        source = before_reshapes(value)
        if source is not value:
            assumed = is_assumed(value)
            view = plan.ViewOp(buffer, Dim.of(0), buffer_type(source.type), assumed=assumed)
            block.add_op(view)
            self.buffers[source] = view.y

    def _view(self, op: nn.ReshapeOp, block: Block) -> None:
        if op.y not in self.buffers:
            assumed = op.assumed is not None
            kind = buffer_type(op.y.type)
            view = plan.ViewOp(self.buffers[op.x], Dim.of(0), kind, assumed=assumed)
            block.add_op(view)
            view.y.name_hint = op.y.name_hint
            self.buffers[op.y] = view.y

    def _call(self, op: nn.CallOp, block: Block) -> None:
        name = op.callee.root_reference.data
        pools = [x for x in op.xs if isinstance(x.type, PagesType)]
        outs: list[SSAValue] = []
        binds = self._bound_by(op)
        if binds:
            buffers = [self.buffers[x] for x in op.xs]
            self._add(plan.HostOp(name, buffers, ["read"] * len(buffers), binds), op, block)
        for y in op.ys:
            if isinstance(y.type, PagesType):
                self.buffers[y] = self.buffers[_pool(y, pools)]
                continue
            if y not in self.buffers:
                alloc = plan.AllocOp(buffer_type(y.type))
                block.add_op(alloc)
                alloc.y.name_hint = y.name_hint
                self.buffers[y] = alloc.y
            outs.append(self.buffers[y])
        if binds:
            self._add(plan.ReceiveOp(outs), op, block)
            return
        buffers = [*(self.buffers[x] for x in op.xs), *outs]
        kernel = self.kernels.get(name)
        if kernel is None:
            access = ["read"] * len(op.xs) + ["write"] * len(outs)
            self._add(plan.HostOp(name, buffers, access), op, block)
        else:
            call = plan.CallOp(
                kernel.name, self._shaped(buffers, kernel.shapes, block), kernel.symbols
            )
            self._add(plan.LaunchOp(Region(Block([call]))), op, block)

    def _shaped(
        self, buffers: list[SSAValue], shapes: list[Shape | None], block: Block
    ) -> list[SSAValue]:
        """Return buffers under the shapes that a kernel takes them in."""
        result: list[SSAValue] = []
        for buffer, shape in zip(buffers, shapes, strict=True):
            kind = cast("plan.BufferType", buffer.type).tensor
            if shape is None or extents(kind) == shape:
                result.append(buffer)
                continue
            shaped = tensor(cast("TensorType[Any]", kind).get_element_type(), shape)
            block.add_op(view := plan.ViewOp(buffer, Dim.of(0), plan.BufferType(shaped)))
            result.append(view.y)
        return result

    def _bound_by(self, op: nn.CallOp) -> list[str]:
        """Return the symbols of results' extents that nothing bound before."""
        found = set[str]().union(*(symbols_of(y.type) for y in op.ys))
        new = sorted(found - self.symbols)
        self.symbols |= found
        return new

    def _add(self, new: Operation, old: Operation, block: Block) -> None:
        inherit_source([new], [old])
        block.add_op(new)

    def _bind(self, op: nn.BindOp, block: Block) -> None:
        self.symbols |= {name.data for name in op.symbols}
        self._add(plan.BindOp(self.buffers[op.x], op.symbols, op.equal), op, block)

    def _switch(self, op: nn.SwitchOp, block: Block) -> None:
        outputs: list[SSAValue | None] = []
        for y in op.ys:
            if isinstance(y.type, PagesType):
                outputs.append(None)
                continue
            if y not in self.buffers:
                alloc = plan.AllocOp(buffer_type(y.type))
                block.add_op(alloc)
                self.buffers[y] = alloc.y
            outputs.append(self.buffers[y])
        branches: list[Region] = []
        for branch in op.branches:
            inner = Block()
            self._body(branch.block, inner, outputs)
            branches.append(Region(inner))
        block.add_op(plan.SwitchOp(Dim.of(op.value.data), values(op.bounds), branches))
        first = op.branches[0].block.last_op
        assert first is not None
        for y, inner_value in zip(op.ys, first.operands, strict=True):
            if isinstance(y.type, PagesType):
                self.buffers[y] = self.buffers[inner_value]


def symbols_of(type: Attribute) -> set[str]:
    """Return the symbols that the extents of a tensor or a page pool name."""
    tensor = type.storage if isinstance(type, PagesType) else type
    return {name for extent in extents(tensor) for name in extent.symbols}


def _pool(result: SSAValue, pools: list[SSAValue]) -> SSAValue:
    """Return the pool that a call gives back: the one of the same type that it updates."""
    fitting = [pool for pool in pools if pool.type == result.type]
    if len(fitting) != 1:
        raise LoweringError("a group updates one page pool of a type")
    return fitting[0]


def buffer_type(type: Attribute) -> plan.BufferType:
    """Return the buffer that holds a tensor or a page pool."""
    storage = type.storage if isinstance(type, PagesType) else cast("TensorType[Any]", type)
    return plan.BufferType(storage)
