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

    A program goes through `depth` columns of K in `steps` steps.
    """

    tiles: Tiles
    block: SSAValue
    blocks: Dim
    rows: int
    depth: int
    steps: int

    def weights(self, memref: SSAValue, panels: Span) -> Lines:
        """Return the lines of panels of `[…, K, 16]`, which the last blocks ask for together."""
        emit = self.tiles.emit
        apart = max(1, LINE // (ROWS * _bytes(memref)))
        lines = panels.size * -(-self.depth // apart)
        # Of a product that never has rows no program runs, but there is a kernel of it.
        blocks = Dim.of(1) if self.blocks == 0 else self.blocks
        number = Dim.of(lines).ceildiv(blocks * self.steps).minimum(MOST_LINES)
        left = emit.add(arith.SubiOp(emit.extent(self.blocks), self.block))
        later = emit.add(arith.MuliOp(left, emit.extent(number * self.steps)))
        first = emit.add(arith.SubiOp(emit.index(lines), later))
        return Lines(self.tiles, memref, panels, apart, first, emit.extent(number))

    def left(self, memref: SSAValue) -> Lines:
        """Return the lines of the next block of rows of `[…, K]`."""
        emit = self.tiles.emit
        apart = LINE // _bytes(memref)
        start = emit.times(emit.plus(self.block, 1), self.rows)
        rows = Span(start, self.rows, inside=True)
        number = -(-self.rows * self.depth // (apart * self.steps))
        return Lines(self.tiles, memref, rows, apart, emit.index(0), emit.index(number))


def _shape(memref: SSAValue) -> tuple[int, ...]:
    return tuple(cast("MemRefType[Any]", memref.type).get_shape())


def _bytes(memref: SSAValue) -> int:
    return element_bytes(cast("MemRefType[Any]", memref.type).element_type)
