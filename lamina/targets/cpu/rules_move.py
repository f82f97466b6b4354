"""What only moves elements: one index map each."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final, cast

import numpy as np
from xdsl.ir import Operation, SSAValue

from lamina.dialects import tile
from lamina.dialects.tile import shape_of, values
from lamina.targets.cpu.elements import element, literal, vector_literal
from lamina.targets.cpu.emitter import Emitter, Rule
from lamina.targets.cpu.ranges import Range
from lamina.targets.cpu.shuffles import Index, gather, rearrange, splat
from lamina.targets.cpu.values import Tile

Map = Callable[[Any, Index], Index]
"""Gives the source position of each result element, from the array of source positions."""


def _moved(map: Map) -> Rule:
    def rule(emitter: Emitter, op: Any) -> None:
        source = emitter.tile(op.x)
        positions = np.arange(prod(shape_of(op.x.type))).reshape(shape_of(op.x.type))
        index = np.broadcast_to(map(op, positions), shape_of(op.y.type)).reshape(-1)
        _set(
            emitter,
            op.x,
            op.y,
            rearrange(emitter.builder, source, shape_of(op.y.type), emitter.width(op.y), index),
        )

    return rule


def _set(emitter: Emitter, source: SSAValue, result: SSAValue, value: Tile) -> None:
    emitter.ranges[result] = emitter.range(source)
    emitter.set(result, value)


def _broadcast(op: tile.BroadcastOp, positions: Index) -> Index:
    shape = [1] * len(shape_of(op.y.type))
    for d, size in zip(values(op.dims), positions.shape, strict=True):
        shape[d] = size
    return positions.reshape(shape)


def _transpose(op: tile.TransposeOp, positions: Index) -> Index:
    return positions.transpose(values(op.perm))


def _reshape(op: tile.ReshapeOp, positions: Index) -> Index:
    return positions.reshape(shape_of(op.y.type))


def _slice(op: tile.SliceOp, positions: Index) -> Index:
    shape = shape_of(op.y.type)
    cut = tuple(slice(s, s + n) for s, n in zip(values(op.start), shape, strict=True))
    return positions[cut]


def _splat(emitter: Emitter, op: tile.SplatOp) -> None:
    source, width = emitter.tile(op.x), emitter.width(op.y)
    kind = element(op.x.type)

    def make(_: int) -> str:
        if source.memory is not None:
            return gather(emitter.builder, source, [0] * width)
        return splat(emitter.builder, kind, source.part(0), width)

    y = Tile(emitter.builder, kind, shape_of(op.y.type), width, make, lane=lambda _: source.part(0))
    if not kind.floating and kind.bits > 1:
        known = emitter.literal(op.x)
        emitter.ranges[op.y] = emitter.range(op.x) if known is None else Range.exactly(known)
    emitter.set(op.y, y)


def _iota(emitter: Emitter, op: tile.IotaOp) -> None:
    (size,), width = shape_of(op.y.type), emitter.width(op.y)
    kind = element(op.y.type)

    def make(part: int) -> str:
        return vector_literal(kind, list(range(part * width, (part + 1) * width)))

    emitter.ranges[op.y] = Range(0, size - 1)
    emitter.set(
        op.y, Tile(emitter.builder, kind, (size,), width, make, lane=lambda i: literal(kind, i))
    )


def _join(emitter: Emitter, op: tile.JoinOp) -> None:
    sources = [emitter.tile(x) for x in op.xs]
    width = min(s.width for s in sources)
    shape = shape_of(op.y.type)
    positions: list[Index] = []
    start = 0
    for source in sources:
        positions.append(np.arange(start, start + source.size).reshape(source.shape))
        start += source.size
    whole = joined(emitter, sources, width)
    index = np.concatenate(positions, axis=cast("Any", op.dim).value.data).reshape(-1)
    known = [emitter.range(x) for x in op.xs]
    for other in known[1:]:
        known[0] = known[0].union(other)
    emitter.ranges[op.y] = known[0]
    emitter.set(op.y, rearrange(emitter.builder, whole, shape, emitter.width(op.y), index))


def joined(emitter: Emitter, sources: list[Tile], width: int) -> Tile:
    """Return the elements of `sources`, one after the other, in one dimension."""
    from lamina.targets.cpu.shuffles import rechunk

    fits = all(s.size % width == 0 for s in sources)
    width = width if fits else 1
    cut = [rechunk(emitter.builder, s, width) for s in sources]
    where = [(tile, part) for tile in cut for part in range(tile.count)]
    starts = [(s, i) for s in sources for i in range(s.size)]
    alone = all(s.scalars for s in sources)
    return Tile(
        emitter.builder,
        sources[0].element,
        (sum(s.size for s in sources),),
        width,
        lambda part: where[part][0].part(where[part][1]),
        lane=(lambda i: starts[i][0].lane(starts[i][1])) if alone else None,
    )


RULES: Final[dict[type[Operation], Rule]] = {
    tile.BroadcastOp: _moved(_broadcast),
    tile.TransposeOp: _moved(_transpose),
    tile.ReshapeOp: _moved(_reshape),
    tile.SliceOp: _moved(_slice),
    tile.SplatOp: _splat,
    tile.IotaOp: _iota,
    tile.JoinOp: _join,
}
