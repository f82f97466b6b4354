"""Have kernels write the parts of a concatenation where they belong, so that none is copied."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from lamina.dialects.areas import Columns
from lamina.dialects.bounds import proves_at_most, proves_multiple
from lamina.dialects.dims import Dim, product
from lamina.dialects.plan import (
    ALIGNMENT,
    AllocOp,
    BindOp,
    BufferType,
    CallOp,
    HostOp,
    LaunchOp,
    ReceiveOp,
    SwitchOp,
    ViewOp,
    area_at,
    columns_of,
    element_bytes,
)
from lamina.dialects.tensors import extents
from lamina.dialects.tile import AnyKernelOp
from lamina.passes.functions import argument_attributes, find_function
from lamina.passes.live_ranges import kernels_of, root_of, start_of
from lamina.passes.rewriting import add_source
from lamina.passes.strided_memrefs import dynamic_strides, make_strided, may_be_strided


@dataclass(frozen=True)
class PlanJoinsPass(ModulePass):
    """A concatenation whose parts are all made by kernels is no kernel: its parts are views of it.

    Parts that follow one another begin at a multiple of 64 bytes. Others are columns of a matrix:
    kernels that write or read them take the distance of rows as an argument; where a product reads
    rows of a length that it knows, these stay as they lie. `strided=false` leaves columns out. A
    part that is an argument of `@forward`, that the host touches, that has two places, or whose
    extents are bound after it is made, is copied, and then the others as well.
    """

    name = "plan-joins"

    strided: bool = True

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        function = find_function(op, "forward")
        if function is None:
            return
        kernels = kernels_of(function)
        if not any(kernel.joins is not None for kernel in kernels.values()):
            return
        joins = _Joins(kernels, _outputs(function), self.strided)
        joins.block(function.body.block)
        calls = (each for each in op.walk() if isinstance(each, CallOp))
        called = {call.callee.string_value() for call in calls}
        for name, kernel in kernels.items():
            if kernel.joins is not None and name not in called:
                Rewriter.erase_op(kernel)


def _outputs(function: FuncOp) -> set[SSAValue]:
    named = argument_attributes(function)
    return {arg for arg, names in named if "lamina.output" in names.data}


@dataclass(frozen=True)
class _Part:
    """Where a buffer goes: rows of `width` elements, into rows of `stride`, from a byte on.

    There is no stride where parts follow one another.
    """

    root: SSAValue
    whole: SSAValue
    offset: Dim
    width: Dim
    stride: Dim | None
    element: int

    def place(self, value: SSAValue) -> tuple[Dim, Columns | None] | None:
        """Return from which byte of the whole on a view of the part is; None if it is nowhere."""
        kind, start = cast("BufferType", value.type), start_of(value)
        columns = columns_of(value)
        if self.stride is None:
            return self.offset + start, columns
        if element_bytes(kind.tensor.get_element_type()) != self.element:
            return None
        if (found := _row_and_column(start, self.width * self.element)) is None:
            return None
        row, column = found
        place = self.offset + row * self.stride * self.element + column
        if columns is not None:
            fits = columns.stride == self.width
            return (place, Columns(columns.outer, self.stride)) if fits else None
        outer = _dims_of_rows(extents(kind.tensor), self.width)
        return None if outer is None or column != 0 else (place, Columns(outer, self.stride))


_Moves = dict[SSAValue, tuple[Dim, Columns | None]]
"""For views of a part: from which byte of the whole on they are, and how their rows lie."""


@dataclass
class _Joins:
    kernels: Mapping[str, AnyKernelOp]
    outputs: set[SSAValue]
    strided: bool
    movable: dict[tuple[SSAValue, int], bool] = field(
        default_factory=dict[tuple[SSAValue, int], bool]
    )

    def block(self, block: Block) -> None:
        """Take away the concatenations of a block: what an early one made may be a later one's."""
        for op in list(block.ops):
            if isinstance(op, SwitchOp):
                for branch in op.branches:
                    self.block(branch.block)
            elif isinstance(op, LaunchOp):
                for call in op.calls:
                    kernel = self.kernels[call.callee.string_value()]
                    if kernel.joins is not None:
                        self._join(call, op, kernel.joins.value.data)

    def _join(self, call: CallOp, launch: LaunchOp, dim: int) -> None:
        *values, result = call.buffers
        whole = root_of(result)
        if not (self._is_free(whole, call) and _is_all(result, whole)):
            return
        parts = _parts(values, result, whole, dim)
        if len({part.root for part in parts}) < len(parts):
            return
        moves = list[_Moves]()
        for part, value in zip(parts, values, strict=True):
            found = self._moves(part, value, launch)
            if found is None:
                return
            moves.append(found)
        self._take(call, launch)
        if isinstance(whole.owner, AllocOp):
            _move_first(whole.owner)
        for part, moved in zip(parts, moves, strict=True):
            for value, (offset, columns) in moved.items():
                if _direct_uses(value):
                    self._replace(value, part, offset, columns)
            _erase_unused(part.root)
        _erase_unused(whole)

    def _is_free(self, whole: SSAValue, call: CallOp) -> bool:
        """Whether only a concatenation writes a buffer, in its branch, and may do so in parts."""
        ours = whole in self.outputs or _is_plain(whole)
        if not ours or any(view.assumed is not None for view in _views(whole)):
            return False
        writers = [use for value, use in _uses(whole) if self._writes(use, value)]
        return all(use is call or _exclude(use, call) for use in writers)

    def _writes(self, op: Operation, value: SSAValue) -> bool:
        if isinstance(op, CallOp):
            access = self.kernels[op.callee.string_value()].access
        elif isinstance(op, HostOp):
            access = op.access
        else:
            return not isinstance(op, BindOp)
        given = zip(op.operands, access, strict=True)
        return any(operand is value and how.data != "read" for operand, how in given)

    def _moves(self, part: _Part, value: SSAValue, launch: LaunchOp) -> _Moves | None:
        """Return where each view of a part goes that a call takes; None if one cannot."""
        if not (
            _is_plain(part.root)
            and columns_of(value) is None
            and _is_all(value, part.root)
            and _sees(part.root, part.whole)
            and self._is_made_before(part, launch)
        ):
            return None
        found: _Moves = {}
        for each, use in _uses(part.root):
            place = part.place(each)
            if place is None or not isinstance(use, CallOp) or not _is_inside(part, each, *place):
                return None
            if use.parent_op() is not launch and not self._may_take(use, each, *place):
                return None
            found[each] = place
        return found

    def _is_made_before(self, part: _Part, launch: LaunchOp) -> bool:
        """Whether all that writes a part comes earlier, and no extent is bound since then."""
        block = launch.parent
        assert block is not None
        first: Operation = launch
        for value, use in _uses(part.root):
            if not self._writes(use, value):
                continue
            step = block.find_ancestor_op_in_block(use)
            if step is None or step is launch or not step.is_before_in_block(launch):
                return False
            first = step if step.is_before_in_block(first) else first
        while first is not launch:
            if any(_binds(op) for op in first.walk()):
                return False
            after = first.next_op
            assert after is not None
            first = after
        return True

    def _may_take(
        self, call: CallOp, value: SSAValue, offset: Dim, columns: Columns | None
    ) -> bool:
        """Whether a call can take a buffer at its new place."""
        if columns is None:
            return proves_multiple(offset, ALIGNMENT)
        arguments = self._arguments(call, value)
        return self.strided and all(self._is_movable(arg, columns.outer) for arg in arguments)

    def _is_movable(self, argument: SSAValue, outer: int) -> bool:
        if (argument, outer) not in self.movable:
            self.movable[argument, outer] = may_be_strided(argument, outer)
        return self.movable[argument, outer]

    def _arguments(self, call: CallOp, value: SSAValue) -> Iterator[SSAValue]:
        kernel = self.kernels[call.callee.string_value()]
        for buffer, argument in zip(call.buffers, kernel.memrefs, strict=True):
            if buffer is value:
                yield argument

    def _take(self, call: CallOp, launch: LaunchOp) -> None:
        """Erase the call that copies; who makes the last part is said to do its work."""
        makers = [
            use.parent_op()
            for value, use in _uses(root_of(call.buffers[-2]))
            if self._writes(use, value)
        ]
        if isinstance(makers[0], LaunchOp):
            add_source(makers[0], launch)
        Rewriter.erase_op(call)
        if not launch.calls:
            Rewriter.erase_op(launch)

    def _replace(self, value: SSAValue, part: _Part, offset: Dim, columns: Columns | None) -> None:
        if columns is not None:
            for _, call in _direct_uses(value):
                for argument in self._arguments(cast("CallOp", call), value):
                    if dynamic_strides(argument.type) < columns.outer:
                        make_strided(argument, columns.outer)
        view = ViewOp(part.whole, offset, value.type, columns=columns)
        view.y.name_hint = value.name_hint
        assert isinstance(value.owner, Operation)
        Rewriter.insert_op(view, InsertPoint.before(value.owner))
        for _, call in _direct_uses(value):
            for i, operand in enumerate(call.operands):
                if operand is value:
                    call.operands[i] = view.y


def _is_inside(part: _Part, value: SSAValue, offset: Dim, columns: Columns | None) -> bool:
    """Whether a view at its new place surely lies within the whole."""
    area = area_at(cast("BufferType", value.type), offset, columns)
    return area.lies_within(cast("BufferType", part.whole.type).bytes)


def _parts(values: Sequence[SSAValue], result: SSAValue, whole: SSAValue, dim: int) -> list[_Part]:
    """Return where the parts of a concatenation go in the root of its result."""
    tensor = cast("BufferType", result.type).tensor
    shape, element = extents(tensor), element_bytes(tensor.get_element_type())
    follow = product(shape[:dim]) == 1
    stride, offset, parts = product(shape[dim:]), Dim.of(0), list[_Part]()
    for value in values:
        width = product(extents(cast("BufferType", value.type).tensor)[dim:])
        stride_of = None if follow else stride
        parts.append(_Part(root_of(value), whole, offset, width, stride_of, element))
        offset += width * element
    return parts


def _is_all(value: SSAValue, root: SSAValue) -> bool:
    """Whether a view is all of what it is a view of, row by row."""
    same = cast("BufferType", value.type).bytes == cast("BufferType", root.type).bytes
    return same and start_of(value) == 0


def _row_and_column(start: Dim, width: Dim) -> tuple[Dim, Dim] | None:
    """Return in which row of `width` bytes a byte is, and where in it."""
    if start == 0 or proves_at_most(start + 1, width):
        return Dim.of(0), start
    if start.constant is None or not width.constant:
        return None
    row, column = divmod(start.constant, width.constant)
    return Dim.of(row), Dim.of(column)


def _dims_of_rows(shape: Sequence[Dim], width: Dim) -> int | None:
    """Return how many leading dimensions count rows of `width` elements; None if none do."""
    for outer in range(1, len(shape) + 1):
        if product(shape[outer:]) == width:
            return outer
    return None


def _exclude(one: Operation, other: Operation) -> bool:
    """Whether two operations are in different branches of a switch."""
    branches = [region for region in _regions(one) if isinstance(region.parent, SwitchOp)]
    others = list(_regions(other))
    return any(
        region is not each and region.parent is each.parent
        for region in branches
        for each in others
    )


def _regions(op: Operation) -> Iterator[Region]:
    while (region := op.parent_region()) is not None:
        yield region
        parent = region.parent_op()
        if parent is None:
            return
        op = parent


def _is_plain(root: SSAValue) -> bool:
    """Whether a buffer is an alloc of the memory of kernels, and its views have its very size."""
    alloc = isinstance(root.owner, AllocOp) and root.owner.memory is None
    return alloc and all(view.assumed is None for view in _views(root))


def _sees(root: SSAValue, whole: SSAValue) -> bool:
    """Whether `whole`, taken at the head of its block, can be used where `root` is."""
    block = whole.owner if isinstance(whole.owner, Block) else whole.owner.parent
    alloc = cast("AllocOp", root.owner)
    return block is not None and block.find_ancestor_op_in_block(alloc) is not None


def _binds(op: Operation) -> bool:
    return isinstance(op, BindOp | ReceiveOp) or (isinstance(op, HostOp) and op.binds is not None)


def _move_first(alloc: AllocOp) -> None:
    block = alloc.parent
    assert block is not None
    alloc.detach()
    Rewriter.insert_op(alloc, InsertPoint.at_start(block))


def _views(value: SSAValue) -> list[ViewOp]:
    """Return the views of a buffer, each before those of it."""
    found: list[ViewOp] = []
    for use in value.uses:
        if isinstance(use.operation, ViewOp):
            found += [use.operation, *_views(use.operation.y)]
    return found


def _uses(root: SSAValue) -> list[tuple[SSAValue, Operation]]:
    """Return what takes a buffer or a view of it, and which."""
    return [pair for value in (root, *(v.y for v in _views(root))) for pair in _direct_uses(value)]


def _direct_uses(value: SSAValue) -> list[tuple[SSAValue, Operation]]:
    users = dict.fromkeys(use.operation for use in value.uses)
    return [(value, user) for user in users if not isinstance(user, ViewOp)]


def _erase_unused(root: SSAValue) -> None:
    """Erase views of a buffer that nothing takes, and the buffer itself if it is none's."""
    for view in reversed(_views(root)):
        if not view.y.uses:
            Rewriter.erase_op(view)
    if isinstance(root.owner, AllocOp) and not root.uses:
        Rewriter.erase_op(root.owner)
