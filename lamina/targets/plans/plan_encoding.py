"""A module at the level of `plan` to the tables that are walked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import MemRefType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from lamina.dialects import plan
from lamina.dialects.areas import packed_strides
from lamina.dialects.dims import Dim, parse_dim
from lamina.dialects.tensors import extents, signless
from lamina.dialects.tile import WORK, WORKERS, AnyKernelOp, values
from lamina.errors import LoweringError
from lamina.targets.plans.expressions import Expressions
from lamina.targets.plans.hazards import Hazards, Place
from lamina.targets.plans.layouts import Layout, layout
from lamina.targets.plans.plan_tables import (
    ARENA,
    BARRIER,
    COPY,
    END,
    FIRST_ARRAY,
    HOST,
    HOST_CALL,
    JUMP,
    LAUNCH,
    NULL,
    SWITCH,
    UNSAID,
    HostBuffer,
    HostCall,
    Plan,
    Stored,
)
from lamina.targets.signature import arguments_of, equal_extents, forward_of, source_of

ROLES = ("input", "state", "packed", "output")
"""The arguments of `@forward`: `lamina.<role>` names each."""

_COMMON_OPS = frozenset(
    op.name
    for op in (
        plan.ArenaOp,
        plan.CallOp,
        plan.HostOp,
        plan.LaunchOp,
        plan.ReturnOp,
        plan.SwitchOp,
        plan.ViewOp,
    )
)

PLAN_OPS = _COMMON_OPS | {plan.BindOp.name, plan.ReceiveOp.name}
"""The operations that the plan of a CPU may hold."""

DEVICE_PLAN_OPS = _COMMON_OPS | {plan.CopyOp.name}
"""The operations that the plan of a device with memory of its own may hold."""

_GRID = 3


def encode_plan(module: ModuleOp, scratch: int, nodes: Sequence[str]) -> Plan:
    """Return the plan of `module`'s `@forward`.

    `scratch` is the most bytes that a kernel wants, `nodes` what their checks may name. Raises
    LoweringError for an operation that a plan cannot hold, or a symbol that no input gives.
    """
    forward = forward_of(module)
    kernels = {op.sym_name.data: op for op in module.ops if isinstance(op, AnyKernelOp)}
    encoder = _Encoder(kernels, forward)
    encoder.block(forward.body.block)
    return encoder.finish(scratch, nodes)


def _roles(function: FuncOp) -> list[tuple[str, str, plan.BufferType]]:
    """Return (role, name, type) of every argument."""
    found: list[tuple[str, str, plan.BufferType]] = []
    for n, (names, kind) in enumerate(arguments_of(function)):
        roles = [role for role in ROLES if f"lamina.{role}" in names]
        if len(roles) != 1 or not isinstance(kind, plan.BufferType):
            raise LoweringError(f"@forward: argument {n} is no buffer of one role: {kind}")
        found.append((roles[0], names[f"lamina.{roles[0]}"], kind))
    order = [role for role, _, _ in found]
    if order != sorted(order, key=ROLES.index):
        raise LoweringError(f"@forward: expected arguments in the order {', '.join(ROLES)}")
    return found


class _Encoder:
    """The tables so far."""

    def __init__(self, kernels: Mapping[str, AnyKernelOp], forward: FuncOp) -> None:
        self._kernels, self._forward = kernels, forward
        self._numbers = {name: number for number, name in enumerate(kernels)}
        self._expressions = Expressions()
        self._records: list[list[int]] = []
        self._calls: list[tuple[int, ...]] = []
        self._works: list[tuple[int, ...]] = []
        self._words: list[tuple[int, int]] = []
        self._hosts: list[HostCall] = []
        self._copies: list[tuple[int, ...]] = []
        self._bound = set[str]()
        self._launches = 0
        self._arenas = {ARENA: Dim.of(0), HOST: Dim.of(0)}
        self._pending = Hazards()
        self._arguments = _roles(forward)
        self._places: dict[SSAValue, tuple[int, Dim]] = {
            argument: (FIRST_ARRAY + n, Dim.of(0))
            for n, argument in enumerate(forward.body.block.args)
        }
        self._rules: dict[type[Operation], Callable[[Any], None]] = {
            plan.ArenaOp: self._take_arena,
            plan.ViewOp: self._take_view,
            plan.LaunchOp: self._launch,
            plan.SwitchOp: self._switch,
            plan.HostOp: self._host,
            plan.BindOp: self._bind,
            plan.ReceiveOp: self._receive,
            plan.CopyOp: self._copy,
            plan.ReturnOp: lambda op: None,
        }

    def block(self, block: Block) -> None:
        """Encode a block's operations in order."""
        for op in block.ops:
            rule = self._rules.get(type(op))
            if rule is None:
                raise LoweringError(f"there is no rule for {op.name} in a plan")
            rule(op)

    def finish(self, scratch: int, nodes: Sequence[str]) -> Plan:
        """Return the plan."""
        self._records.append([END])
        dims = self._expressions
        arena, host_arena = dims.value(self._arenas[ARENA]), dims.value(self._arenas[HOST])
        outputs = [
            tuple(dims.value(dim) for dim in extents(kind.tensor))
            for role, _, kind in self._arguments
            if role == "output"
        ]
        equal = tuple(
            (dims.value(a), dims.value(b), node) for a, b, node in equal_extents(self._forward)
        )
        self._check_symbols()
        return Plan(
            values=dims.count,
            symbols=tuple(dims.symbols.items()),
            constants=tuple(dims.constants.items()),
            expressions=tuple(dims.rows),
            records=tuple(tuple(record) for record in self._records),
            calls=tuple(self._calls),
            works=tuple(self._works),
            arguments=tuple(self._words),
            copies=tuple(self._copies),
            launches=self._launches,
            kernels=tuple(self._kernels),
            schedules=tuple(
                op.schedule.text if op.schedule else "" for op in self._kernels.values()
            ),
            arrays=len(self._arguments),
            arena=arena,
            host_arena=host_arena,
            outputs=tuple(outputs),
            packed=tuple(
                _stored(name, kind) for role, name, kind in self._arguments if role == "packed"
            ),
            hosts=tuple(self._hosts),
            scratch=scratch,
            nodes=tuple(nodes),
            equal=equal,
        )

    def _check_symbols(self) -> None:
        bound = {WORKERS, *self._bound}
        for role, _, kind in self._arguments:
            if role in ("input", "state"):
                bound |= {name for dim in extents(kind.tensor) for name in dim.symbols}
        if loose := sorted(self._expressions.symbols.keys() - bound):
            raise LoweringError(f"@forward: no input gives the symbol {loose[0]!r}")

    def _take_arena(self, op: plan.ArenaOp) -> None:
        base = HOST if plan.is_host(op.y) else ARENA
        self._places[op.y] = (base, Dim.of(0))
        self._arenas[base] = op.y.type.bytes

    def _take_view(self, op: plan.ViewOp) -> None:
        base, offset = self._places[op.x]
        self._places[op.y] = (base, offset + parse_dim(op.offset.data))

    def _launch(self, op: plan.LaunchOp) -> None:
        self._meet([use for call in op.calls for use in self._uses(call)])
        first = len(self._calls)
        for call in op.calls:
            self._call(call)
        if len(self._calls) > first:
            self._records.append([LAUNCH, first, len(self._calls) - first, self._launches])
            self._launches += 1

    def _call(self, call: plan.CallOp) -> None:
        kernel = self._kernel(call)
        given = [parse_dim(symbol.data) for symbol in call.symbols]
        names = [symbol.data for symbol in kernel.symbols]
        if len(given) != len(names) or len(call.buffers) != len(kernel.memrefs):
            raise LoweringError(f"the call of @{kernel.sym_name.data} does not fit the kernel")
        first = len(self._words)
        for buffer, argument in zip(call.buffers, kernel.memrefs, strict=True):
            self._memref(kernel, buffer, argument.type)
        for dim in given:
            self._words.append((NULL, self._expressions.value(dim)))
        bound = dict(zip(names, given, strict=True))
        grid = [parse_dim(extent.data).substitute(bound) for extent in kernel.grid]
        grid += [Dim.of(1)] * (_GRID - len(grid))
        number = self._numbers[kernel.sym_name.data]
        sizes = (self._expressions.value(extent) for extent in grid)
        self._calls.append((number, first, len(self._words) - first, *sizes))
        self._works.append(self._work(kernel, bound))

    def _work(self, kernel: AnyKernelOp, bound: Mapping[str, Dim]) -> tuple[int, ...]:
        """Return the values of a call's counts, in the order of `WORK`."""
        counts = [kernel.work.get(key) if kernel.work else None for key in WORK]
        return tuple(
            UNSAID if count is None else self._expressions.value(count.substitute(bound))
            for count in counts
        )

    def _memref(self, kernel: AnyKernelOp, buffer: SSAValue, kind: Attribute) -> None:
        base, offset = self._places[buffer]
        if base == HOST:
            raise LoweringError(f"@{kernel.sym_name.data} is given memory of the host")
        shape, expected = extents(_tensor(buffer.type)), layout(kind)
        element = cast("MemRefType[Any]", kind).element_type
        fits = len(shape) == len(expected.extents) and all(
            fixed is None or dim == fixed
            for dim, fixed in zip(shape, expected.extents, strict=True)
        )
        if not fits or signless(_tensor(buffer.type).get_element_type()) != element:
            raise LoweringError(
                f"@{kernel.sym_name.data} takes {kind}, the plan gives {buffer.type}"
            )
        self._words.append((base, self._expressions.value(offset)))
        sizes = [d for d, fixed in zip(shape, expected.extents, strict=True) if fixed is None]
        sizes += _free_strides(kernel, buffer, expected)
        self._words += [(NULL, self._expressions.value(dim)) for dim in sizes]

    def _switch(self, op: plan.SwitchOp) -> None:
        value = self._expressions.value(parse_dim(op.value.data))
        before, after = self._pending, Hazards()
        jumps: list[list[int]] = []
        for n, branch in enumerate(op.branches):
            self._pending = before
            test: list[int] | None = None
            if n < len(op.branches) - 1:
                test = [SWITCH, value, values(op.bounds)[n], 0]
                self._records.append(test)
            self.block(branch.block)
            after = after | self._pending
            if test is not None:
                jumps.append([JUMP, 0])
                self._records.append(jumps[-1])
                test[3] = len(self._records)
        for jump in jumps:
            jump[1] = len(self._records)
        self._pending = after

    def _host(self, op: plan.HostOp) -> None:
        # The caller alone makes a host call: the workers wait for it at the second barrier.
        self._barrier()
        buffers = [
            self._host_buffer(buffer, access.data)
            for buffer, access in zip(op.buffers, op.access, strict=True)
        ]
        binds = tuple(self._shape_bind(op, name.data) for name in op.binds or ())
        node = source_of(op)
        self._hosted(HostCall(op.callee.string_value(), tuple(buffers), binds=binds, node=node))

    def _shape_bind(self, op: plan.HostOp, name: str) -> tuple[int, int, int]:
        """Return where the results of a host call show the value of a symbol."""
        after = op.next_op
        while after is not None and not isinstance(after, plan.ReceiveOp):
            after = after.next_op
        kinds = [_tensor(buffer.type) for buffer in after.buffers] if after is not None else []
        for i, kind in enumerate(kinds):
            if Dim.symbol(name) in extents(kind):
                return (*self._new_symbol(name), i, extents(kind).index(Dim.symbol(name)))
        raise LoweringError(f"{op.name} of @{op.callee.string_value()} does not give {name!r}")

    def _new_symbol(self, name: str) -> tuple[int]:
        self._bound.add(name)
        return (self._expressions.value(Dim.symbol(name)),)

    def _bind(self, op: plan.BindOp) -> None:
        self._barrier()
        equal = tuple(
            (self._expressions.value(parse_dim(a.data)), self._expressions.value(parse_dim(b.data)))
            for a, b in op.equal
        )
        buffers = (self._host_buffer(op.x, "read"),)
        binds = tuple((*self._new_symbol(name.data), 0, i) for i, name in enumerate(op.symbols))
        self._hosted(HostCall("", buffers, "bind", binds, equal, source_of(op)))

    def _receive(self, op: plan.ReceiveOp) -> None:
        self._barrier()
        buffers = tuple(self._host_buffer(buffer, "write") for buffer in op.buffers)
        self._hosted(HostCall("", buffers, "receive", node=source_of(op)))

    def _hosted(self, call: HostCall) -> None:
        self._records.append([HOST_CALL, len(self._hosts)])
        self._hosts.append(call)
        self._barrier()

    def _copy(self, op: plan.CopyOp) -> None:
        places = (self._places[op.x], self._places[op.y])
        if sum(base == HOST for base, _ in places) != 1:
            raise LoweringError(f"{op.name} goes from one memory to another, not within one")
        self._barrier()
        row = [number for base, at in places for number in (base, self._expressions.value(at))]
        size = self._expressions.value(cast("plan.BufferType", op.x.type).bytes)
        self._records.append([COPY, len(self._copies)])
        self._copies.append((*row, size))
        self._barrier()

    def _host_buffer(self, buffer: SSAValue, access: str) -> HostBuffer:
        base, offset = self._places[buffer]
        dims = tuple(self._expressions.value(dim) for dim in extents(_tensor(buffer.type)))
        element = str(_tensor(buffer.type).get_element_type())
        return HostBuffer(base, self._expressions.value(offset), element, dims, access)

    def _meet(self, uses: Sequence[tuple[Place, str]]) -> None:
        """Put a barrier where this launch needs one, and remember what it touches."""
        touched = Hazards(
            frozenset(place for place, access in uses if access != "write"),
            frozenset(place for place, access in uses if access != "read"),
        )
        if self._pending.conflict(touched):
            self._barrier()
        self._pending = self._pending | touched

    def _barrier(self) -> None:
        self._records.append([BARRIER])
        self._pending = Hazards()

    def _uses(self, call: plan.CallOp) -> list[tuple[Place, str]]:
        uses: list[tuple[Place, str]] = []
        for buffer, access in zip(call.buffers, self._kernel(call).access, strict=True):
            base, offset = self._places[buffer]
            area = plan.area_of(buffer)
            uses.append((Place(base, area.moved(offset - area.start)), access.data))
        return uses

    def _kernel(self, call: plan.CallOp) -> AnyKernelOp:
        name = call.callee.string_value()
        if name not in self._kernels:
            raise LoweringError(f"the plan calls @{name}, which is no kernel")
        return self._kernels[name]


def _free_strides(kernel: AnyKernelOp, buffer: SSAValue, expected: Layout) -> list[Dim]:
    """Return the strides of a buffer that a kernel takes as arguments; it must have the others."""
    given, shape = plan.strides_of(buffer), extents(_tensor(buffer.type))
    fixed = expected.strides or packed_strides(shape)
    for own, stride, extent in zip(given, fixed, shape, strict=True):
        if stride is not None and own != stride and extent != 1:
            raise LoweringError(
                f"@{kernel.sym_name.data} takes rows that are {stride} elements apart, the plan "
                f"gives {buffer.type} of which they are {own}"
            )
    return [own for own, stride in zip(given, fixed, strict=True) if stride is None]


def _tensor(type: Attribute) -> TensorType[Any]:
    return cast("plan.BufferType", type).tensor


def _stored(name: str, kind: plan.BufferType) -> Stored:
    return Stored(name, str(kind.tensor.get_element_type()), tuple(kind.tensor.get_shape()))
