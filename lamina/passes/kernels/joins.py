"""Tile rules of tensors put together: one after another, and inside padding.

A tile is read from every part at the place that it would have there; what lies outside of a part
is replaced.
"""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import SSAValue

from lamina.dialects import nn, tile
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents
from lamina.passes.kernels.maps import indices_of
from lamina.passes.kernels.subscripts import Index, Rows, Span, Subscript, sizes
from lamina.passes.kernels.tiles import Tiles, rule


@rule(nn.ConcatOp)
def _concat(tiles: Tiles, op: nn.ConcatOp, index: Index, _: SSAValue) -> SSAValue:
    dim, start = op.dim.value.data, extents(op.xs[0].type)[op.dim.value.data]
    y = tiles.tile_of(op.xs[0], _moved(tiles, index, dim, Dim.of(0), start))
    for x in list(op.xs)[1:]:
        size = extents(x.type)[dim]
        part = tiles.tile_of(x, _moved(tiles, index, dim, start, size))
        y = tiles.emit.add(tile.SelectOp(_from(tiles, index, dim, start), part, y))
        start = start + size
    return y


@rule(nn.PadOp)
def _pad(tiles: Tiles, op: nn.PadOp, index: Index, _: SSAValue) -> SSAValue:
    emit, inner = tiles.emit, index
    bounds = zip(op.lows, extents(op.x.type), op.highs, strict=True)
    masks: list[SSAValue] = []
    for dim, (low, size, high) in enumerate(bounds):
        if low != 0 or high != 0:
            inner = _moved(tiles, inner, dim, low, size)
        if _adds(low):
            masks.append(_from(tiles, index, dim, low))
        if _adds(high):
            masks.append(_from(tiles, index, dim, size + low, kind="lt"))
    y = tiles.tile_of(op.x, inner)
    value = cast("FloatAttr[Any] | IntegerAttr[Any]", op.value).value.data
    outside = emit.full(value, nn.element(op.y), sizes(index))
    for mask in masks:
        y = emit.add(tile.SelectOp(mask, y, outside))
    return y


def _adds(width: Dim) -> bool:
    """Whether elements may be put there; a width below 0 cuts off."""
    return width.constant is None or width.constant > 0


def _moved(tiles: Tiles, index: Index, dim: int, by: Dim, extent: Dim) -> Index:
    """Return `index` with `by` taken off in a dimension of `extent`; it may be outside now."""
    emit, sub = tiles.emit, index[dim]
    start, limit = emit.extent(by), emit.extent(extent)
    if isinstance(sub, Rows):
        shift = emit.add(tile.SplatOp(start, [sub.size]))
        moved: Subscript = Rows(emit.binary(arith.SubiOp, sub.indices, shift), sub.size, False)
    elif by == 0:
        moved = Span(sub.start, sub.size, limit=limit)
    else:
        moved = Span(emit.binary(arith.SubiOp, sub.start, start), sub.size, limit=limit)
    return (*index[:dim], moved, *index[dim + 1 :])


def _from(tiles: Tiles, index: Index, dim: int, bound: Dim, kind: str = "ge") -> SSAValue:
    """Return where in the tile a dimension is at `bound` or beyond it (`lt`: below it)."""
    emit, sub = tiles.emit, index[dim]
    limit = emit.add(tile.SplatOp(emit.extent(bound), [sub.size]))
    mask = emit.add(tile.CompareOp(kind, indices_of(tiles, sub), limit))
    return emit.broadcast(mask, [dim], sizes(index))
