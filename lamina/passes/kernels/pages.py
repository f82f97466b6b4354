"""Tile rules of cached keys and values read as they are, and of the sequence of each token."""

from __future__ import annotations

from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, f32, i32
from xdsl.ir import SSAValue

from lamina.dialects import cache, tile
from lamina.dialects.cache import PagesType
from lamina.errors import LoweringError
from lamina.passes.kernels.kernel import divided
from lamina.passes.kernels.subscripts import Index, Rows, Span, sizes
from lamina.passes.kernels.tiles import Tiles, rule


@rule(cache.ReadOp)
def _read(tiles: Tiles, op: cache.ReadOp, index: Index, _: SSAValue) -> SSAValue:
    """One cached position of one token at a time."""
    emit, kind = tiles.emit, cast("PagesType", op.pages.type)
    token, place, head, width = index
    if token.size != 1 or not isinstance(place, Span) or not isinstance(token, Span):
        raise LoweringError("a fused cache read takes one token at a time")
    count, page = place.size, kind.page.value.data
    owner = emit.cast(tiles.tile_of(op.sequence, (token,)), IndexType())
    spots = emit.add(tile.IotaOp(IndexType(), count))
    spots = emit.binary(arith.AddiOp, spots, emit.add(tile.SplatOp(place.start, [count])))
    block, row = divided(tiles, spots, page, count)
    owners = Rows(emit.broadcast(owner, [0], [count]), count)
    table = tiles.load(
        tiles.memrefs[op.table],
        (owners, Rows(block.indices, count, inside=False)),
        shape=(count,),
        zip=(0, 1),
    )
    pages = Rows(emit.cast(table, IndexType()), count, inside=False)
    grain = kind.tile.value.data
    memref = tiles.memrefs[op.pages]
    shape = (count, head.size, width.size)
    if grain:
        of_tile, in_tile = divided(tiles, row.indices, grain, count)
        at: Index = (pages, head, of_tile, width, in_tile)
        found = tiles.load(memref, at, shape=shape, zip=(0, 2, 4))
    else:
        found = tiles.load(memref, (pages, head, row, width), shape=shape, zip=(0, 2))
    found = emit.cast(found, f32)
    seen = tile.CompareOp(
        "le",
        emit.cast(spots, i32),
        emit.broadcast(tiles.tile_of(op.positions, (token,)), [0], [count]),
    )
    mask = emit.broadcast(emit.add(seen), [0], shape)
    known = emit.add(tile.SelectOp(mask, found, emit.full(0.0, f32, shape)))
    return emit.reshape(known, sizes(index))
