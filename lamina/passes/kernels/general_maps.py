"""Groups that go through rows, for tensors of any extents: fewer dimensions, symbols for numbers.

Dimensions that all operations go along together become one, those of one element vanish, and
the extents that are left are symbols, one for all dimensions that operations tie. Numbers stay
where they decide how a kernel goes: extents that a row's arithmetic depends on, and short rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from xdsl.dialects.builtin import (
    ArrayAttr,
    IntegerAttr,
    StringAttr,
)
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from lamina.dialects import nn, tile
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import tensor
from lamina.passes.constants import is_listed
from lamina.passes.kernels.axes import Axes, axes_of, cut
from lamina.passes.kernels.axis_runs import Key, Run, Runs
from lamina.passes.kernels.named_axes import Values, values_of
from lamina.passes.kernels.row_kernel import WIDEST

_CUT = (nn.ConcatOp, nn.PadOp, nn.SliceOp)
"""What takes parts of a row: how long the whole of it is does not say how it goes."""

_LOOK_UPS = (nn.GatherElementsOp, nn.GatherNdOp)
"""What takes elements of its first operand one by one."""


def general_map(group: nn.GroupOp) -> tuple[nn.GroupOp, Values] | None:
    """Return a group of any extents that does what `group` does, and its new symbols' extents.

    None if what an operation does along its dimensions is not known.
    """
    new = group.clone()
    ops = list(new.body.block.ops)[:-1]
    axes = axes_of(ops)
    if axes is None or any(map(is_listed, ops)):
        return None
    values = [*values_of(new)]
    general = _General(axes, Runs(axes, values), ops)
    return (new, general.values) if general.rewrite(values) else None


class _General:
    """A group under rewriting: what its runs' extents become."""

    def __init__(self, axes: Axes, runs: Runs, ops: Sequence[Operation]) -> None:
        self.runs, self.ops, self.values = runs, ops, Values()
        self.widths: dict[tuple[Operation, int], tuple[Dim, Dim]] = {}
        """What a pad puts before and after each dimension."""
        self._known: dict[Key, Dim] = {}
        self._flat = all(len(runs.of(value)) < 2 for value, _ in runs.all())
        self._numbers = {
            runs.key(value, run)
            for value, run in runs.all()
            if axes.fixed().intersection(runs.key(value, run)) or self._is_short(value, run)
        }
        for op in reversed(ops):
            for d in _summed(op):
                if self._key(op.results[0], d) in self._numbers:
                    self._numbers |= {self._key(x, d) for x in op.operands}

    def rewrite(self, values: Sequence[SSAValue]) -> bool:
        """Change operations and types; False if an extent is a sum, and something else too."""
        if not all(self._add_up(op, d) for op in self.ops for d in _summed(op)):
            return False
        shapes = [[self._extent(value, run) for run in self.runs.of(value)] for value in values]
        for op in self.ops:
            if type(op) in _CHANGES:
                _CHANGES[type(op)](self, op)
        for value, shape in zip(values, shapes, strict=True):
            Rewriter.replace_value_with_new_type(value, tensor(nn.element(value), shape))
        for op in self.ops:
            if isinstance(op, nn.ReshapeOp) and op.x.type == op.y.type:
                op.y.replace_all_uses_with(op.x)
                op.detach()
                op.erase()
        return True

    def symbol(self, dim: Dim) -> Dim:
        """Return a new symbol, which is `dim` in the group that this one is made of."""
        name = f"lamina.extent{len(self.values)}"
        self.values[name] = dim
        return Dim.symbol(name)

    def moved(self, value: SSAValue, run: Run, by: Dim) -> Dim:
        """Return a distance along the first dimension of a run, as one along the run."""
        return by * self.runs.extent(value, run[1:])

    def _key(self, value: SSAValue, d: int) -> Key:
        return self.runs.key(value, self._run(value, d))

    def _run(self, value: SSAValue, d: int) -> Run:
        return self.runs.of(value)[self.runs.place(value, d)]

    def _is_short(self, value: SSAValue, run: Run) -> bool:
        """Whether a run is rows that vectors of their length go through."""
        extent = self.runs.extent(value, run).constant
        if self._flat or run != self.runs.of(value)[-1] or extent is None or extent >= WIDEST:
            return False
        uses = list(value.uses)
        return not uses or not all(
            isinstance(use.operation, _CUT)
            or (isinstance(use.operation, _LOOK_UPS) and use.index == 0)
            for use in uses
        )

    def _extent(self, value: SSAValue, run: Run) -> Dim:
        key, dim = self.runs.key(value, run), self.runs.extent(value, run)
        if key not in self._known:
            stays = key in self._numbers or (dim == 1 and not self._flat)
            number = stays and dim.constant is not None
            self._known[key] = dim if number else self.symbol(dim)
        return self._known[key]

    def _add_up(self, op: Operation, d: int) -> bool:
        """Find the extent of what is put together along a dimension."""
        y = op.results[0]
        key, total = self._key(y, d), Dim.of(0)
        for x in op.operands:
            total = total + self._extent(x, self._run(x, d))
        if isinstance(op, nn.PadOp):
            run = self._run(y, d)
            widths = [self.moved(y, run, width[d]) for width in (op.lows, op.highs)]
            low, high = (w if key in self._numbers else self.symbol(w) for w in widths)
            self.widths[op, d] = low, high
            total = low + total + high
        if key in self._known:
            return False
        self._known[key] = total
        return True


def _summed(op: Operation) -> list[int]:
    """Return the dimensions along which an operation's extents are sums."""
    if isinstance(op, nn.PadOp):
        return [d for d, _, _ in cut(op)]
    return [op.dim.value.data] if isinstance(op, nn.ConcatOp) else []


def _broadcast(general: _General, op: nn.BroadcastOp) -> None:
    dims = tile.values(op.dims)
    runs = general.runs.of(op.x)
    op.dims = tile.ints([general.runs.place(op.y, dims[run[0]]) for run in runs])


def _transpose(general: _General, op: nn.TransposeOp) -> None:
    perm = tile.values(op.perm)
    runs = general.runs.of(op.y)
    op.perm = tile.ints([general.runs.place(op.x, perm[run[0]]) for run in runs])


def _slice(general: _General, op: nn.SliceOp) -> None:
    changed = {d: (begin, step) for d, begin, step in cut(op)}
    starts, steps = list[Dim](), list[int]()
    for run in general.runs.of(op.x):
        begin, step = changed.get(run[0], (None, 1))
        whole = begin is None
        starts.append(Dim.of(0) if whole else general.symbol(general.moved(op.x, run, begin)))
        steps.append(step)
    op.start = ArrayAttr([StringAttr(str(start)) for start in starts])
    op.step = tile.ints(steps) if any(step != 1 for step in steps) else None


def _pad(general: _General, op: nn.PadOp) -> None:
    runs, none = general.runs.of(op.x), (Dim.of(0), Dim.of(0))
    widths = [general.widths.get((op, run[0]), none) for run in runs]
    op.low = nn.pad_widths([low for low, _ in widths])
    op.high = nn.pad_widths([high for _, high in widths])


def _renumber(name: str, value: Callable[[Any], SSAValue]) -> Callable[[_General, Any], None]:
    """Return what changes the property that names a dimension of a value."""

    def change(general: _General, op: Operation) -> None:
        number = op.properties[name]
        assert isinstance(number, IntegerAttr)
        place = general.runs.place(value(op), number.value.data)
        op.properties[name] = IntegerAttr(place, 64)

    return change


def _reduce(general: _General, op: nn.ReduceOp) -> None:
    op.dims = tile.ints([general.runs.place(op.x, d) for d in tile.values(op.dims)])


def _gather_nd(general: _General, op: nn.GatherNdOp) -> None:
    batch = op.batch_dims.value.data
    op.batch_dims = IntegerAttr(sum(run[0] < batch for run in general.runs.of(op.x)), 64)


def _first(op: Operation) -> SSAValue:
    return op.operands[0]


def _result(op: Operation) -> SSAValue:
    return op.results[0]


_CHANGES: Final[dict[type[Operation], Callable[[_General, Any], None]]] = {
    nn.BroadcastOp: _broadcast,
    nn.ConcatOp: _renumber("dim", _result),
    nn.GatherElementsOp: _renumber("axis", _first),
    nn.GatherNdOp: _gather_nd,
    nn.GatherOp: _renumber("axis", _first),
    nn.IotaOp: _renumber("dim", _result),
    nn.PadOp: _pad,
    nn.ReduceOp: _reduce,
    nn.SliceOp: _slice,
    nn.SoftmaxOp: _renumber("axis", _first),
    nn.TransposeOp: _transpose,
}
"""How each operation names the dimensions that are left."""
