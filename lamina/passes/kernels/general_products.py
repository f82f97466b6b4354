"""Products with packed weights, of any number of rows, panels and columns of K.

What a schedule divides stays divided: K is a number of steps of `k` columns, and panels are a
number of bands, so that kernels of any extents check no more than those of numbers do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xdsl.ir import BlockArgument, Operation

from lamina.dialects import nn
from lamina.dialects.quant import ROWS
from lamina.dialects.tensors import extents
from lamina.dialects.traits import Elementwise
from lamina.passes.kernels.axes import Axes, Tie, axes_of
from lamina.passes.kernels.linear_kernel import has_panels, is_linear
from lamina.passes.kernels.named_axes import NamedAxes, Values, values_of
from lamina.passes.kernels.register_tile import RegisterTile

BESIDE: Final = (nn.BroadcastOp, nn.ConstantOp, nn.SliceOp)
"""What may stand in a general group beside operations that map elements."""


def general_product(group: nn.GroupOp) -> tuple[nn.GroupOp, Values] | None:
    """Return a group of any extents that does what `group` does, and its new symbols' extents.

    None if its weights come in blocks, its rows are computed first, or what follows needs numbers.
    """
    schedule = group.schedule
    if schedule is None or "threads" in schedule.values.data:
        return None
    new = group.clone()
    ops = list(new.body.block.ops)[:-1]
    products = [op for op in ops if isinstance(op, nn.DotGeneralOp)]
    if not products or not all(_is_plain(op) for op in products):
        return None
    if not all(_is_product(op) or follows(op) for op in ops):
        return None
    axes = axes_of(ops, _TIES)
    if axes is None:
        return None
    named = _named(axes, products, ops, _fit(group, products))
    if not named.clear:
        return None
    named.write([*values_of(new)])
    return new, named.values


def follows(op: Operation) -> bool:
    """Whether an operation may follow in a group whose columns are any number."""
    if isinstance(op, nn.SliceOp):
        x, y = extents(op.x.type), extents(op.y.type)
        return x[:-1] == y[:-1] and op.step is None and all(n == 0 for n in op.starts)
    return isinstance(op, BESIDE) or op.has_trait(Elementwise, value_if_unregistered=False)


def _is_product(op: Operation) -> bool:
    return isinstance(op, nn.DotGeneralOp) or (isinstance(op, nn.ReshapeOp) and _folds(op))


def _folds(op: nn.ReshapeOp) -> bool:
    """Whether a reshape makes columns of a product's panels and their lanes."""
    return isinstance(op.x.owner, nn.DotGeneralOp) and len(extents(op.y.type)) == 2


def _is_plain(op: nn.DotGeneralOp) -> bool:
    weight = op.b.owner.x if isinstance(op.b.owner, nn.CastOp) else op.b
    plain = isinstance(op.a, BlockArgument) and isinstance(weight, BlockArgument)
    return plain and is_linear(op) and has_panels(op.b)


def _fit(group: nn.GroupOp, products: Sequence[nn.DotGeneralOp]) -> RegisterTile:
    return RegisterTile.of(group, products, extents(products[0].y.type)[1])


def _named(
    axes: Axes, products: Sequence[nn.DotGeneralOp], ops: Sequence[Operation], fit: RegisterTile
) -> NamedAxes:
    """Return names for rows, for K where steps divide it, and for columns."""
    named, apart = NamedAxes(axes), fit.count * fit.band
    for op in products:
        rows, depth = extents(op.a.type)
        bands = named.symbol("bands", extents(op.y.type)[1] // apart)
        named.call((op.y, 0), named.symbol("rows", rows))
        if depth % fit.step == 0 and depth != 0:
            named.call((op.a, 1), named.symbol("steps", depth // fit.step) * fit.step)
        named.call((op.y, 1), bands * apart)
        for use in op.y.uses:
            if isinstance(use.operation, nn.ReshapeOp):
                named.call((use.operation.y, 1), bands * (apart * ROWS))
    for op in ops:
        if isinstance(op, nn.SliceOp):
            named.call((op.y, 1), named.symbol("columns", extents(op.y.type)[1]))
    return named


def _tie_product(axes: Axes, op: nn.DotGeneralOp) -> None:
    axes.tie((op.a, 0), (op.y, 0))
    axes.tie((op.a, 1), (op.b, 1))
    axes.tie((op.b, 0), (op.y, 1))


def _tie_fold(axes: Axes, op: nn.ReshapeOp) -> None:
    axes.tie((op.x, 0), (op.y, 0))


_TIES: Final[dict[type[Operation], Tie]] = {
    nn.DotGeneralOp: _tie_product,
    nn.ReshapeOp: _tie_fold,
}
"""What products, and what makes columns of their panels, tie."""
