"""Which dimensions of a group's values are the same: what each operation ties, in one table.

A dimension of a value that an operation gives from the same dimension of another is tied to it.
Some stand apart: an operation does something along them that it does along no other, so that they
are no part of a longer dimension. Of those that are cut, or put together, rows of what follows
them may go along: they lead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from lamina.dialects import nn, tile
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents
from lamina.dialects.traits import Elementwise

Axis = tuple[SSAValue, int]
"""A dimension of a value."""


class Axes:
    """The dimensions of a group's values, and which of them are one."""

    def __init__(self) -> None:
        self._same: dict[Axis, Axis] = {}
        self._beside: dict[Axis, Axis] = {}
        self._apart: list[Axis] = []
        self._leading: list[Axis] = []
        self._fixed: list[Axis] = []

    def tie(self, a: Axis, b: Axis) -> None:
        """Say that two dimensions are the same."""
        _join(self._same, a, b)
        self.go_together(a, b)

    def go_together(self, a: Axis, b: Axis) -> None:
        """Say that what follows one dimension is taken into it only if so it is with another."""
        _join(self._beside, a, b)

    def keep_apart(self, *axes: Axis) -> None:
        """Say that dimensions are taken into no other."""
        self._apart += axes

    def lead(self, *axes: Axis) -> None:
        """Say that what follows dimensions may be taken into them, and they into nothing."""
        self._leading += axes

    def fix(self, *axes: Axis) -> None:
        """Say that the extents of dimensions, if they are numbers, decide how kernels go."""
        self._fixed += axes

    def of(self, axis: Axis) -> Axis:
        """Return the dimension that stands for all that are the same."""
        return _root(self._same, axis)

    def family(self, axis: Axis) -> Axis:
        """Return the dimension that stands for all that go together."""
        return _root(self._beside, axis)

    def apart(self) -> set[Axis]:
        """Return the families that stand apart."""
        return {self.family(axis) for axis in self._apart}

    def leading(self) -> set[Axis]:
        """Return the families that lead."""
        return {self.family(axis) for axis in self._leading}

    def fixed(self) -> set[Axis]:
        """Return the dimensions whose extents stay numbers."""
        return {self.of(axis) for axis in self._fixed}


def _root(parents: dict[Axis, Axis], axis: Axis) -> Axis:
    while axis in parents:
        axis = parents[axis]
    return axis


def _join(parents: dict[Axis, Axis], a: Axis, b: Axis) -> None:
    a, b = _root(parents, a), _root(parents, b)
    if a != b:
        parents[b] = a


Tie = Callable[[Axes, Any], None]
"""Ties the dimensions of what an operation takes and gives."""


def axes_of(
    ops: Sequence[Operation], known: Mapping[type[Operation], Tie] | None = None
) -> Axes | None:
    """Return the dimensions of what operations take and give; None if one's are not known.

    What is `known` comes before what the table says.
    """
    axes = Axes()
    for op in ops:
        tie = (known or {}).get(type(op), _TIES.get(type(op)))
        if isinstance(op, nn.ReshapeOp) and tie is _reshape and not keeps_dimensions(op):
            return None
        if tie is None and op.has_trait(Elementwise, value_if_unregistered=False):
            tie = _tie_all
        if tie is None or not all(
            isinstance(v.type, TensorType) for v in (*op.operands, *op.results)
        ):
            return None
        tie(axes, op)
    return axes


def rank(value: SSAValue) -> int:
    """Return the number of a tensor's dimensions."""
    return len(extents(value.type))


def _tie_all(axes: Axes, op: Operation) -> None:
    first, *others = [*op.operands, *op.results]
    for other in others:
        for d in range(rank(first)):
            axes.tie((first, d), (other, d))


def _nothing(axes: Axes, op: Operation) -> None:
    pass


def _iota(axes: Axes, op: nn.IotaOp) -> None:
    axes.keep_apart((op.y, op.dim.value.data))


def _extents(axes: Axes, op: nn.ExtentsOp) -> None:
    for d in range(rank(op.y)):
        axes.keep_apart((op.y, d))
        axes.fix((op.y, d))


def _broadcast(axes: Axes, op: nn.BroadcastOp) -> None:
    x, y = extents(op.x.type), extents(op.y.type)
    for d, to in enumerate(tile.values(op.dims)):
        if x[d] == y[to]:
            axes.tie((op.x, d), (op.y, to))


def _transpose(axes: Axes, op: nn.TransposeOp) -> None:
    for d, of in enumerate(tile.values(op.perm)):
        axes.tie((op.x, of), (op.y, d))


def cut(op: nn.SliceOp | nn.PadOp) -> Iterator[tuple[int, Dim, int]]:
    """Yield the dimensions that an operation changes, where it begins, and its step."""
    x, y = extents(op.x.type), extents(op.y.type)
    begins = op.starts if isinstance(op, nn.SliceOp) else op.lows
    steps = tile.values(op.step) if isinstance(op, nn.SliceOp) else ()
    for d, begin in enumerate(begins):
        step = steps[d] if steps else 1
        if (begin, step, x[d]) != (0, 1, y[d]):
            yield d, begin, step


def _cut(axes: Axes, op: nn.SliceOp | nn.PadOp) -> None:
    changed = {d: step for d, _, step in cut(op)}
    for d in range(rank(op.x)):
        if d not in changed:
            axes.tie((op.x, d), (op.y, d))
        elif changed[d] == 1:
            axes.lead((op.x, d), (op.y, d))
            axes.go_together((op.x, d), (op.y, d))
        else:
            axes.keep_apart((op.x, d), (op.y, d))


def _concat(axes: Axes, op: nn.ConcatOp) -> None:
    for x in op.xs:
        for d in range(rank(x)):
            if d != op.dim.value.data:
                axes.tie((x, d), (op.y, d))
            else:
                axes.lead((x, d), (op.y, d))
                axes.go_together((x, d), (op.y, d))


def _reduce(axes: Axes, op: nn.ReduceOp) -> None:
    dims, at = tile.values(op.dims), 0
    for d in range(rank(op.x)):
        if d in dims:
            axes.keep_apart((op.x, d))
            axes.fix((op.x, d))
        else:
            axes.tie((op.x, d), (op.y, at))
            at += 1


def keeps_dimensions(op: nn.ReshapeOp) -> bool:
    """Whether a reshape only puts in or takes out dimensions of one element."""
    x, y = ([n for n in extents(v.type) if n != 1] for v in (op.x, op.y))
    return x == y


def _reshape(axes: Axes, op: nn.ReshapeOp) -> None:
    x, y = ([(v, d) for d, n in enumerate(extents(v.type)) if n != 1] for v in (op.x, op.y))
    for before, after in zip(x, y, strict=True):
        axes.tie(before, after)


def _along(axes: Axes, op: nn.SoftmaxOp | nn.ScanOp) -> None:
    _tie_all(axes, op)
    d = op.axis.value.data if isinstance(op, nn.SoftmaxOp) else op.dim.value.data
    axes.keep_apart((op.x, d))
    axes.fix((op.x, d))


def _gather(axes: Axes, op: nn.GatherOp) -> None:
    axis, count = op.axis.value.data, rank(op.indices)
    axes.keep_apart((op.x, axis))
    axes.fix((op.x, axis))
    for d in range(rank(op.x)):
        if d != axis:
            axes.tie((op.x, d), (op.y, d if d < axis else d + count - 1))
    for d in range(count):
        axes.tie((op.indices, d), (op.y, axis + d))


def _gather_nd(axes: Axes, op: nn.GatherNdOp) -> None:
    places = rank(op.indices) - 1
    rest = rank(op.y) - places
    axes.keep_apart((op.indices, places))
    axes.fix((op.indices, places))
    for d in range(places):
        axes.tie((op.indices, d), (op.y, d))
    for d in range(rank(op.x)):
        if d < op.batch_dims.value.data:
            axes.tie((op.x, d), (op.y, d))
        elif d < rank(op.x) - rest:
            axes.keep_apart((op.x, d))
        else:
            axes.tie((op.x, d), (op.y, d - rank(op.x) + rank(op.y)))


def _gather_elements(axes: Axes, op: nn.GatherElementsOp) -> None:
    x, y = extents(op.x.type), extents(op.indices.type)
    for d in range(len(x)):
        axes.tie((op.indices, d), (op.y, d))
        axes.keep_apart((op.x, d), (op.y, d))
        if d != op.axis.value.data and x[d] == y[d]:
            axes.tie((op.x, d), (op.y, d))


_TIES: Final[dict[type[Operation], Tie]] = {
    nn.BroadcastOp: _broadcast,
    nn.ConcatOp: _concat,
    nn.ConstantOp: _nothing,
    nn.ExtentsOp: _extents,
    nn.GatherElementsOp: _gather_elements,
    nn.GatherNdOp: _gather_nd,
    nn.GatherOp: _gather,
    nn.IotaOp: _iota,
    nn.PadOp: _cut,
    nn.ReduceOp: _reduce,
    nn.ReshapeOp: _reshape,
    nn.SliceOp: _cut,
    nn.SoftmaxOp: _along,
    nn.TransposeOp: _transpose,
}
"""What each operation ties, but for those that map elements, which tie all alike."""
