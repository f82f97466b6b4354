"""Build products with packed weights for threads that share a tile: `x[T, K] · w[N, K]`.

A tile of the result is `m` rows by `n` columns. Of many rows, threads have rows and columns of it,
and go through K together, a block of 32 columns after another; of few, they have columns of K
apart. Either way a sum is that of the same partial sums (`depth_parts`), so that the bits of a row
do not depend on how many rows there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32
from xdsl.ir import OpResult, SSAValue

from lamina.dialects import cache, nn, quant, tile
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents
from lamina.passes.kernels.block_products import Blocks, FloatBlocks, IntegerBlocks, Place
from lamina.passes.kernels.depth_parts import DepthParts
from lamina.passes.kernels.kernel import Kernel
from lamina.passes.kernels.split_products import FloatRounds, IntegerRounds, Round, Rounds
from lamina.passes.kernels.subscripts import Span

BLOCK, ROWS = quant.BLOCK, quant.ROWS

SPLIT = "parts"
"""How many partial sums threads have at a time, in the schedule of few rows."""


class ThreadLinear:
    """The program of a group whose anchors are products of one left operand."""

    def __init__(
        self, kernel: Kernel, products: Sequence[quant.LinearOp | nn.DotGeneralOp], depth: int
    ) -> None:
        schedule = kernel.group.schedule
        assert schedule is not None
        self.kernel, self.products = kernel, products
        self.tiles, self.emit = kernel.tiles, kernel.emit
        self.rows, self.columns = schedule.get("m"), schedule.get("n")
        self.threads = schedule.get("threads")
        self.parts = DepthParts.of(depth // BLOCK)
        self.split = schedule.get(SPLIT, 0)
        self.integer = isinstance(products[0], quant.LinearOp)

    def build(self, rows: Dim, tiles: int) -> tile.KernelOp:
        """Emit the program of a tile and close the kernel."""
        emit = self.emit
        column, row = self.kernel.program(0), self.kernel.program(1)
        first = emit.times(row, self.rows)
        clamped = self.tiles.clamped_rows(first, self.rows, emit.extent(rows))
        panels = self.columns // ROWS
        place = Place(clamped, Span(emit.times(column, panels), panels, inside=True), self.threads)
        sums = self._split(place) if self.split else self._together(place)
        inside = all(width == tiles * ROWS for width in self._widths())
        self._finish(
            sums, first, rows, Span(emit.times(column, self.columns), self.columns, inside)
        )
        return self.kernel.finish([Dim.of(tiles // panels), rows.ceildiv(self.rows)])

    def _together(self, place: Place) -> list[SSAValue]:
        """Return sums `[m, n]` of many rows: block after block of each partial sum."""
        emit, loop, count = self.emit, self.tiles.loop, len(self.products)
        blocks: Blocks = (
            IntegerBlocks(self.tiles, cast("Sequence[quant.LinearOp]", self.products), place)
            if self.integer
            else FloatBlocks(self.tiles, cast("Sequence[nn.DotGeneralOp]", self.products), place)
        )
        none = [emit.full(0.0, f32, place.shape) for _ in self.products]
        zero, one = emit.index(0), emit.index(1)

        def part(n: SSAValue, *carried: SSAValue) -> Sequence[SSAValue]:
            rounds = self._rounds(n)

            def some(i: SSAValue, *inner: SSAValue) -> Sequence[SSAValue]:
                sums, loaded = inner[:count], inner[count:]
                blocks.keep(loaded)
                following = blocks.loads(self._after(i, n, rounds))
                return [*blocks.add(loaded, sums), *following]

            found = loop(zero, rounds, one, [*none, *carried[count:]], some)
            pairs = zip(carried[:count], found[:count], strict=True)
            return [*(emit.binary(arith.AddfOp, x, y) for x, y in pairs), *found[count:]]

        parts = emit.index(self.parts.count)
        found = loop(zero, parts, one, [*none, *blocks.loads(self._block(zero, zero))], part)
        return found[:count]

    def _rounds(self, part: SSAValue) -> SSAValue:
        """Return how many blocks a partial sum has."""
        emit, parts = self.emit, self.parts
        if not parts.rest:
            return emit.index(parts.rounds)
        late = emit.less(emit.index(parts.count - parts.rest - 1), part)
        return emit.add(tile.SelectOp(late, emit.index(parts.rounds + 1), emit.index(parts.rounds)))

    def _block(self, i: SSAValue, part: SSAValue) -> SSAValue:
        """Return the block of a round that belongs to a partial sum."""
        emit, parts = self.emit, self.parts
        first = emit.add(arith.MuliOp(i, emit.index(parts.count)))
        last = emit.index(parts.blocks - parts.count)
        return emit.add(arith.AddiOp(emit.add(arith.MinSIOp(first, last)), part))

    def _after(self, i: SSAValue, part: SSAValue, rounds: SSAValue) -> SSAValue:
        """Return the block after one; the first one of the last part after the last of all."""
        emit = self.emit
        further = emit.plus(i, 1)
        inside = emit.less(further, rounds)
        last = emit.index(self.parts.count - 1)
        following = emit.add(arith.MinSIOp(emit.plus(part, 1), last))
        of_part = emit.add(tile.SelectOp(inside, part, following))
        return self._block(emit.add(tile.SelectOp(inside, further, emit.index(0))), of_part)

    def _split(self, place: Place) -> list[SSAValue]:
        """Return sums `[m, n]` of few rows: threads have partial sums apart, some at a time."""
        emit, count = self.emit, self.parts.count
        rounds: Rounds = (
            IntegerRounds(
                self.tiles, cast("Sequence[quant.LinearOp]", self.products), *self._at(place)
            )
            if self.integer
            else FloatRounds(
                self.tiles, cast("Sequence[nn.DotGeneralOp]", self.products), *self._at(place)
            )
        )
        rows, columns = place.shape
        memories = [emit.scratch(f32, [count, rows, columns]) for _ in self.products]

        def some(first: SSAValue) -> Sequence[SSAValue]:
            for found, memory in zip(self._parts(rounds, place, first), memories, strict=True):
                whole = (Span(emit.index(0), size, inside=True) for size in place.shape)
                together = emit.reshape(found, (self.split, rows, columns))
                self.tiles.store(together, memory, (Span(first, self.split, inside=True), *whole))
            return []

        if self.split == count:
            some(emit.index(0))
        else:
            self.tiles.loop(emit.index(0), emit.index(count), emit.index(self.split), [], some)
        return [self._added(each, place) for each in memories]

    def _at(self, place: Place) -> tuple[Place, int]:
        return place, self.split

    def _parts(self, rounds: Rounds, place: Place, first: SSAValue) -> Sequence[SSAValue]:
        """Return some partial sums of each product, those from `first` on."""
        emit, parts, size = self.emit, self.parts, self.split
        none = emit.full(0.0, f32, (size, place.rows.size, place.panels.size, ROWS))

        def some(i: SSAValue, *sums: SSAValue) -> Sequence[SSAValue]:
            at = emit.binary(arith.AddiOp, emit.times(i, parts.count), first)
            return rounds.add(Round(Span(at, size, inside=True)), sums)

        bounds = (emit.index(0), emit.index(parts.rounds), emit.index(1))
        found = self.tiles.loop(*bounds, [none for _ in self.products], some)
        if not parts.rest:
            return found
        at = emit.plus(first, parts.blocks - parts.count)
        counting = emit.binary(arith.SubiOp, emit.index(parts.count - parts.rest), first)
        return rounds.add(Round(Span(at, size, inside=True), counting), found)

    def _added(self, memory: SSAValue, place: Place) -> SSAValue:
        """Return the sum of partial sums, the first one first."""
        emit, whole = self.emit, [Span(self.emit.index(0), n, inside=True) for n in place.shape]

        def next_one(n: SSAValue, total: SSAValue) -> Sequence[SSAValue]:
            found = self.tiles.load(memory, (Span(n, 1, inside=True), *whole))
            return [emit.binary(arith.AddfOp, total, emit.reshape(found, place.shape))]

        bounds = (emit.index(0), emit.index(self.parts.count), emit.index(1))
        return self.tiles.loop(*bounds, [emit.full(0.0, f32, place.shape)], next_one)[0]

    def _finish(self, sums: Sequence[SSAValue], first: SSAValue, rows: Dim, columns: Span) -> None:
        """Finish the tile at once, or row by row where its end takes one at a time."""
        emit, tiles = self.emit, self.tiles
        results = [op.results[0] for op in self.products]
        if not any(isinstance(op, cache.WriteOp) for op in self.kernel.ops):
            for value, total in zip(results, sums, strict=True):
                tiles.fix(value, total)
            self.kernel.store([Span(first, self.rows, inside=self.rows == 1)], columns)
            return
        every = Span(emit.index(0), self.rows, inside=True)
        across = Span(emit.index(0), self.columns, inside=True)
        memories = [emit.scratch(f32, [self.rows, self.columns]) for _ in sums]
        for total, memory in zip(sums, memories, strict=True):
            tiles.store(total, memory, (every, across))

        def row(i: SSAValue) -> Sequence[SSAValue]:
            one = Span(i, 1, inside=True)
            for value, memory in zip(results, memories, strict=True):
                tiles.fix(value, tiles.load(memory, (one, across)))
            self.kernel.store([Span(emit.add(arith.AddiOp(first, i)), 1, inside=True)], columns)
            return []

        left = emit.add(arith.SubiOp(emit.extent(rows), first))
        end = emit.add(arith.MinSIOp(left, emit.index(self.rows)))
        tiles.loop(emit.index(0), end, emit.index(1), [], row)

    def _widths(self) -> list[int]:
        """The columns of the results, which padding may exceed."""
        products = (op.results[0] for op in self.products)
        sliced = (op.y for op in self.kernel.ops if isinstance(op, nn.SliceOp))
        return [_width(value) for value in chain(products, sliced)]


def _width(value: OpResult) -> int:
    columns = 1
    for dim in extents(value.type)[1:]:
        columns *= dim.evaluate({})
    return columns
