"""Ask, while a tile of a product is multiplied, for what programs after it will read.

The hardware sees a stream only once its first lines were waited for: a large part of the time
where a tile of weights serves few rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue

from lamina.dialects.dims import Dim
from lamina.dialects.plan import element_bytes
from lamina.dialects.quant import ROWS
from lamina.passes.kernels.subscripts import Span
from lamina.passes.kernels.tiles import Tiles

LINE = 64
"""Bytes that are asked for at once."""

MOST_LINES = 8
"""Lines of weights that a step of a loop asks for at most: more wait for one another."""


@dataclass(frozen=True)
class Lines:
    """Lines of some neighbours in `memref`, the first one of each, then the second one of each.

    A line is `apart` elements of the second dimension with all of the dimensions after it. A step
    asks for `number` of them; those of step 0 begin at line `first`, or before there are any.
    """

    tiles: Tiles
    memref: SSAValue
    neighbours: Span
    apart: int
    first: SSAValue
    number: SSAValue

    def ask(self, step: SSAValue) -> None:
        """Ask for the lines of a step."""
        emit, count = self.tiles.emit, self.neighbours.size
        begin = emit.plus(self.first, emit.add(arith.MuliOp(step, self.number)))
        begin = emit.add(arith.MaxSIOp(begin, emit.index(0)))
        lanes = [Span(emit.index(0), size, inside=True) for size in _shape(self.memref)[2:]]

        def one(i: SSAValue) -> None:
            line = emit.plus(begin, i)
            which = emit.plus(self.neighbours.start, emit.modulo(line, count))
            at = emit.times(emit.over(line, count), self.apart)
            place = Span(at, self.apart if lanes else 1, inside=True)
            self.tiles.prefetch(self.memref, (Span(which, 1, inside=True), place, *lanes))

        self.tiles.each(self.number, one)


@dataclass(frozen=True)
class Following:
    """What programs read after block `block` of `blocks` blocks of `rows` rows.

    A program goes through `depth` columns of K in `steps` steps of `step`, and what is left.
    """

    tiles: Tiles
    block: SSAValue
    blocks: Dim
    rows: int
    depth: Dim
    steps: Dim
    step: int

    def weights(self, memref: SSAValue, panels: Span, more: Dim) -> Lines:
        """Return the lines of panels of `[…, K, 16]`, which the last blocks ask for together.

        `more` is 1 if there are such panels, else 0 or less.
        """
        emit = self.tiles.emit
        apart = max(1, LINE // (ROWS * _bytes(memref)))
        lines = self.depth.ceildiv(apart) * panels.size
        # Of a product that never has rows no program runs, but there is a kernel of it.
        blocks = Dim.of(1) if self.blocks == 0 else self.blocks
        number = self._each_step(panels.size, apart, blocks).minimum(MOST_LINES) * more
        left = emit.add(arith.SubiOp(emit.extent(self.blocks), self.block))
        later = emit.add(arith.MuliOp(left, emit.extent(number * self.steps)))
        first = emit.add(arith.SubiOp(emit.extent(lines), later))
        return Lines(self.tiles, memref, panels, apart, first, emit.extent(number))

    def _each_step(self, neighbours: int, apart: int, blocks: Dim) -> Dim:
        """Return how many lines a step asks for where blocks share those of some neighbours."""
        even = neighbours * self.step
        if even % apart == 0 and self.depth == self.steps * self.step:
            return _share(even // apart, blocks)
        return (self.depth.ceildiv(apart) * neighbours).ceildiv(blocks * self.steps)

    def left(self, memref: SSAValue) -> Lines:
        """Return the lines of the next block of rows of `[…, K]`."""
        emit = self.tiles.emit
        apart = LINE // _bytes(memref)
        start = emit.times(emit.plus(self.block, 1), self.rows)
        rows = Span(start, self.rows, inside=True)
        number = self._of_rows(apart)
        return Lines(self.tiles, memref, rows, apart, emit.index(0), emit.extent(number))

    def _of_rows(self, apart: int) -> Dim:
        """Return how many lines of the next rows a step asks for."""
        if self.depth == self.steps * self.step:
            return Dim.of(-(-self.rows * self.step // apart))
        return (self.depth * self.rows).ceildiv(self.steps * apart)


def _share(lines: int, blocks: Dim) -> Dim:
    """Return how many of some lines each block asks for, at most `MOST_LINES`.

    Of blocks of any number it is a power of two: programs of few columns of K would notice a
    division.
    """
    if blocks.constant is not None:
        return Dim.of(lines).ceildiv(blocks)
    number, total = 1, Dim.of(1)
    while number < min(lines, MOST_LINES):
        too_few = (Dim.of(-(-lines // number)) - blocks).maximum(0).minimum(1)
        total, number = total + too_few * number, 2 * number
    return total


def _shape(memref: SSAValue) -> tuple[int, ...]:
    return tuple(cast("MemRefType[Any]", memref.type).get_shape())


def _bytes(memref: SSAValue) -> int:
    return element_bytes(cast("MemRefType[Any]", memref.type).element_type)
