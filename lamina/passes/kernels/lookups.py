"""Tile rules of gathers whose places are lists of places, one for each of several dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from xdsl.ir import SSAValue

from lamina.dialects import nn
from lamina.dialects.tensors import extents
from lamina.errors import LoweringError
from lamina.passes.kernels.maps import indices_of
from lamina.passes.kernels.shared_checks import sources_of
from lamina.passes.kernels.subscripts import Index, Rows, Span, Subscript, sizes
from lamina.passes.kernels.tiles import Tiles, found_rows, rule


@rule(nn.GatherNdOp)
def _gather_nd(tiles: Tiles, op: nn.GatherNdOp, index: Index, _: SSAValue) -> SSAValue:
    emit, batch = tiles.emit, op.batch_dims.value.data
    x, listed = extents(op.x.type), extents(op.indices.type)
    where, rest = index[: len(listed) - 1], index[len(listed) - 1 :]
    count = _lanes(where)
    rows: list[Rows] = []
    for d in range(batch, len(x) - len(rest)):
        at = Span(emit.index(d - batch), 1, inside=True)
        ids = emit.reshape(tiles.tile_of(op.indices, (*where, at)), [count])
        rows.append(found_rows(tiles, ids, x[d], sources_of(op)))
    lead = together(tiles, [*where[:batch], *rows], count)
    return emit.reshape(tiles.tile_of(op.x, (*lead, *rest)), sizes(index))


@rule(nn.GatherElementsOp)
def _gather_elements(tiles: Tiles, op: nn.GatherElementsOp, index: Index, _: SSAValue) -> SSAValue:
    axis, count = op.axis.value.data, _lanes(index)
    ids = tiles.emit.reshape(tiles.tile_of(op.indices, index), [count])
    x, shape = extents(op.x.type), extents(op.indices.type)
    subs = [sub if x[d] == shape[d] else outside(sub) for d, sub in enumerate(index)]
    subs[axis] = found_rows(tiles, ids, x[axis], sources_of(op))
    found = tiles.tile_of(op.x, together(tiles, subs, count))
    return tiles.emit.reshape(found, sizes(index))


def _lanes(index: Index) -> int:
    """Return how many places a tile takes, all of them along one dimension."""
    count = prod(sub.size for sub in index)
    if count != max((1, *(sub.size for sub in index))):
        raise LoweringError("a gather takes places along one dimension")
    return count


def outside(sub: Subscript) -> Subscript:
    """Return a subscript some of whose elements may be outside."""
    return replace(sub, inside=False)


def together(tiles: Tiles, subs: Sequence[Subscript], count: int) -> Index:
    """Return subscripts of which those of `count` elements advance together."""
    if count == 1 or sum(sub.size > 1 for sub in subs) < 2:
        return tuple(subs)
    zipped: list[Subscript] = []
    first = True
    for sub in subs:
        if sub.size == 1:
            zipped.append(sub)
            continue
        zipped.append(Rows(indices_of(tiles, sub), count if first else 1, sub.inside, zipped=True))
        first = False
    return tuple(zipped)
