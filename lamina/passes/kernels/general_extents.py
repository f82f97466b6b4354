"""Make arguments of the extents that leave a kernel as it is, so that more groups share it."""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from lamina.dialects import nn
from lamina.dialects.dims import Dim, product
from lamina.dialects.tensors import extents, tensor
from lamina.passes.kernels.named_axes import Values, values_of

Windowed = nn.ConvOp | nn.PoolOp | nn.WinogradOp


def generalised(group: nn.GroupOp) -> tuple[nn.GroupOp, Values]:
    """Return a group of any images that does what `group` does, and its new symbols' extents.

    The numbers of images and places of a convolution or pool become symbols, but for those of
    which there is one alone. Other groups are what they were, without what is not used.
    """
    found = [op for op in group.body.block.ops if isinstance(op, Windowed)]
    if len(found) != 1 or not _has_rows(found[0]):
        return group, {}
    new, values = group.clone(), Values()
    (op,) = (op for op in new.body.block.ops if isinstance(op, Windowed))
    if not isinstance(op.x.owner, type(new.body.block)):
        return group, {}
    shape = list(extents(op.x.type))
    for d, count in enumerate(op.positions):
        if count.constant is not None and count != 1 and shape[d].constant is not None:
            name = f"lamina.extent{d}"
            values[name], shape[d] = shape[d], Dim.symbol(name)
    if not values:
        return group, {}
    before = extents(op.y.type)
    _retype(op.x, shape)
    after = (product(op.positions), *before[1:])
    for value in values_of(new):
        if value is not op.x and isinstance(value.type, TensorType):
            _follow(value, before, after)
    return new, values


def _has_rows(op: Windowed) -> bool:
    """Whether the result has one dimension of positions."""
    return len(extents(op.y.type)) == 2 or (isinstance(op, nn.ConvOp) and op.parted)


def _follow(value: SSAValue, before: tuple[Dim, ...], after: tuple[Dim, ...]) -> None:
    """Give what has the rows of the result before those of after, its groups maybe turned."""
    shape = extents(cast("Any", value.type))
    if shape in (before, (before[0], *before[:0:-1])):
        _retype(value, (after[0], *shape[1:]))


def _retype(value: SSAValue, shape: Any) -> SSAValue:
    return Rewriter.replace_value_with_new_type(value, tensor(nn.element(value), shape))
