"""All movement in registers is one thing: which source element each result element is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lamina.targets.cpu.builder import Builder
from lamina.targets.cpu.elements import Element
from lamina.targets.cpu.values import Memory, Tile

Index = npt.NDArray[np.int64]
"""Flat positions in a source tile; -1 where any value will do."""


@dataclass(frozen=True)
class _Moved:
    """A load whose elements were given another order before it happened."""

    memory: Memory
    index: Index
    bits: int

    def splat(self, first: int, bits: int, lanes: int) -> str | None:
        run = self.index[first : first + bits // self.bits]
        if bool((np.diff(run) != 1).any()):
            return None
        return self.memory.splat(int(run[0]), bits, lanes)


def gather(builder: Builder, source: Tile, index: Sequence[int] | Index) -> str:
    """Return a vector whose lane i is element `index[i]` of `source`."""
    wanted = [int(i) for i in index]
    first = next((i for i in wanted if i >= 0), 0)
    if all(i in (first, -1) for i in wanted):
        return _splat(builder, source, first, len(wanted))
    return _pick(builder, source, wanted)


def rearrange(
    builder: Builder, source: Tile, shape: Sequence[int], width: int, index: Index
) -> Tile:
    """Return the tile of `shape` in parts of `width` whose element i is `source`'s `index[i]`."""
    rows = index.reshape(-1, width or 1)

    def make(part: int) -> str:
        if not width:
            return source.lane(int(rows[part, 0]))
        return gather(builder, source, rows[part])

    def lane(i: int) -> str:
        return source.lane(int(index[i]))

    memory = None if source.memory is None else _Moved(source.memory, index, source.element.bits)
    return Tile(
        builder,
        source.element,
        shape,
        width,
        make,
        lane=lane if source.scalars else None,
        memory=memory,
    )


def rechunk(builder: Builder, source: Tile, width: int) -> Tile:
    """Return `source` in parts of `width` lanes."""
    if source.width == width:
        return source
    return rearrange(builder, source, source.shape, width, np.arange(source.size))


def splat(builder: Builder, element: Element, scalar: str, width: int) -> str:
    """Return `width` lanes of a scalar."""
    if not scalar.startswith("%"):
        return f"splat ({element.llvm} {scalar})"
    vector = element.of(width)
    one = builder.pure(f"insertelement {vector} poison, {element.llvm} {scalar}, i64 0", scalar)
    return spread(builder, element, one, width, width, 0)


def concat(builder: Builder, element: Element, parts: Sequence[tuple[str, int]]) -> str:
    """Return one vector of the lanes of `parts` (name, width), in order."""
    if len(parts) == 1:
        return parts[0][0]
    if len(parts) == 2:
        (a, m), (b, n) = parts
        b = _widen(builder, element, b, n, m)
        a = _widen(builder, element, a, m, n)
        wide = max(m, n)
        mask = [*range(m), *range(wide, wide + n)]
        return _shuffle(builder, element, a, b, wide, mask)
    half = _middle([n for _, n in parts])
    low, high = parts[:half], parts[half:]
    return concat(
        builder,
        element,
        [(concat(builder, element, side), sum(n for _, n in side)) for side in (low, high)],
    )


def _middle(widths: list[int]) -> int:
    # Halves of a power of two, so that equal parts meet in equal pairs.
    return 1 << ((len(widths) - 1).bit_length() - 1)


def _splat(builder: Builder, source: Tile, index: int, lanes: int) -> str:
    if source.memory is not None:
        name = source.memory.splat(index, source.element.bits, lanes)
        if name is not None:
            return name
    if source.scalars:
        return splat(builder, source.element, source.lane(index), lanes)
    if lanes == 1 == source.width:
        return source.part(index)
    part, lane = divmod(index, source.width)
    return spread(builder, source.element, source.part(part), source.width, lanes, lane)


def _pick(builder: Builder, source: Tile, wanted: list[int]) -> str:
    width = source.width
    if not width:
        return splat(builder, source.element, source.part(0), len(wanted))
    used = sorted({i // width for i in wanted if i >= 0})
    if len(used) > 2:
        if _is_column(wanted, width):
            return _column(builder, source, [i // width for i in wanted], wanted[0] % width)
        if count := _riffled(wanted, width):
            parts = [i // width for i in wanted[:count]]
            return _riffle(builder, source, parts, wanted[0] % width * count // width)
        return _assemble(builder, source, wanted)
    start = {part: n * width for n, part in enumerate(used)}
    mask = [start[i // width] + i % width if i >= 0 else -1 for i in wanted]
    if len(used) == 1 and mask == list(range(width)):
        return source.part(used[0])
    first = source.part(used[0])
    second = source.part(used[1]) if len(used) == 2 else "poison"
    return _shuffle(builder, source.element, first, second, width, mask)


def _is_column(wanted: Sequence[int], width: int) -> bool:
    """Whether lanes are one lane of as many parts as a part has lanes, a power of two."""
    parts = {i // width for i in wanted}
    square = len(wanted) == len(parts) == width and width & (width - 1) == 0
    return square and len({i % width for i in wanted}) == 1


def _column(builder: Builder, source: Tile, parts: Sequence[int], lane: int) -> str:
    """Return one lane of each of some parts.

    A square is turned round by riffling its rows, first half with second half, as often as halving
    them leaves one. All lanes share what they need of that.
    """
    width = source.width
    halves = [range(0, width // 2), range(width // 2, width)]
    masks = [[lane for i in half for lane in (i, width + i)] for half in halves]

    def row(turn: int, number: int) -> str:
        if not turn:
            return source.part(parts[number])
        a, b = (row(turn - 1, number // 2 + n) for n in (0, width // 2))
        return _shuffle(builder, source.element, a, b, width, masks[number % 2])

    return row(width.bit_length() - 1, lane)


def _riffled(wanted: Sequence[int], width: int) -> int:
    """Return of how many parts lanes are neighbours in turn, a power of two; 0 if of none so."""
    count = next((n for n in range(1, len(wanted)) if wanted[n] // width == wanted[0] // width), 0)
    first = wanted[0] % width
    if len(wanted) != width or not count or count & (count - 1) or first * count % width:
        return 0
    parts = [i // width for i in wanted[:count]]
    places = [parts[lane % count] * width + first + lane // count for lane in range(width)]
    return count if len(set(parts)) == count and places == list(wanted) else 0


def _riffle(builder: Builder, source: Tile, parts: Sequence[int], chunk: int) -> str:
    """Return as many lanes as a part has, from `chunk` times as many on, of parts that are riffled.

    Those at even places are riffled first, and those at odd ones; all chunks share what they need.
    """
    width = source.width
    if len(parts) == 1:
        return source.part(parts[0])
    a, b = (_riffle(builder, source, parts[n::2], chunk // 2) for n in (0, 1))
    half = range(width // 2 * (chunk % 2), width // 2 * (chunk % 2 + 1))
    mask = [lane for i in half for lane in (i, width + i)]
    return _shuffle(builder, source.element, a, b, width, mask)


def _assemble(builder: Builder, source: Tile, wanted: list[int]) -> str:
    half = 1 << ((len(wanted) - 1).bit_length() - 1)
    sides = [wanted[:half], wanted[half:]]
    return concat(
        builder, source.element, [(gather(builder, source, side), len(side)) for side in sides]
    )


def _widen(builder: Builder, element: Element, name: str, width: int, least: int) -> str:
    if width >= least:
        return name
    mask = [*range(width), *[-1] * (least - width)]
    return _shuffle(builder, element, name, "poison", width, mask)


def spread(builder: Builder, element: Element, name: str, width: int, lanes: int, lane: int) -> str:
    """Return `lanes` copies of one lane of a vector of `width`."""
    if lane == 0:
        text = (
            f"shufflevector {element.of(width)} {name}, {element.of(width)} poison, "
            f"<{lanes} x i32> zeroinitializer"
        )
        return builder.pure(text, name)
    return _shuffle(builder, element, name, "poison", width, [lane] * lanes)


def _shuffle(
    builder: Builder, element: Element, a: str, b: str, width: int, mask: list[Any]
) -> str:
    if len(set(mask)) == 1:
        lanes = f"splat (i32 {mask[0]})"
    else:
        lanes = "<" + ", ".join(f"i32 {m}" if m >= 0 else "i32 poison" for m in mask) + ">"
    vector = element.of(width)
    return builder.pure(
        f"shufflevector {vector} {a}, {vector} {b}, <{len(mask)} x i32> {lanes}", a, b
    )
