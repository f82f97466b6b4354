"""Build convolutions by transforms: tiles of the input, products point by point, tiles of results.

A program takes some tiles, in row order of all images, and some output channels. It transforms
what its tiles meet into memory of its own, `points` numbers a tile and channel; multiplies each
point's [tiles, channels] by the weights of that point; and transforms the sums, a tile at a time,
into results, which what follows is computed on. Channels come in blocks that a cache holds, and in
ascending order, so that every schedule does the same arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from lamina.dialects import nn, tile
from lamina.dialects.dims import Dim, product
from lamina.dialects.tensors import extents
from lamina.dialects.tile import values
from lamina.dialects.toom_cook import filtering
from lamina.errors import LoweringError
from lamina.passes.kernels.conv_kernel import follows_in_registers
from lamina.passes.kernels.divisors import largest_divisor
from lamina.passes.kernels.kernel import Kernel
from lamina.passes.kernels.linear_combinations import combined
from lamina.passes.kernels.subscripts import Span

USUAL = {"m": 12, "s": 6, "n": 32, "r": 32, "k": 4, "b": 64}
"""Tiles of a program, and those in registers at once; output channels of a program, and those in
registers at once; input channels multiplied at once, and those that a block has."""


def build_winograd(group: nn.GroupOp, name: str) -> tile.KernelOp:
    """Build the kernel of a group whose anchor is one `nn.winograd`."""
    kernel = Kernel(group, name)
    return _Builder(kernel, kernel.only(nn.WinogradOp)).build()


class _Builder:
    def __init__(self, kernel: Kernel, op: nn.WinogradOp) -> None:
        self.kernel, self.op = kernel, op
        self.emit, self.tiles = kernel.emit, kernel.tiles
        if op.x not in self.tiles.memrefs or op.w not in self.tiles.memrefs:
            raise LoweringError(f"{op.name} reads what is in memory")
        self.x, self.w = self.tiles.memrefs[op.x], self.tiles.memrefs[op.w]
        self.depth = op.depth.evaluate({})
        _, panels, _, self.lanes = (n.evaluate({}) for n in extents(op.w.type))
        schedule = kernel.group.schedule
        size = {key: schedule.get(key, n) if schedule else n for key, n in USUAL.items()}
        self.rows, self.abreast, self.step = size["m"], size["s"], size["k"]
        self.panels = largest_divisor(panels, max(1, size["n"] // self.lanes))
        self.at_once = largest_divisor(self.panels, max(1, size["r"] // self.lanes))
        self.block = min(size["b"], self.depth)
        if self.rows % self.abreast or self.depth % self.step or self.block % self.step:
            raise LoweringError(f"a schedule of {size} does not fit {self.depth} channels")
        self.matrices = filtering(op.results_abreast, op.taps)
        self.programs = Dim.of(panels // self.panels)
        self._rooms()

    def _rooms(self) -> None:
        emit, op = self.emit, self.op
        reach, results, lanes = op.reach, op.results_abreast, self.lanes
        wide = -(-self.block // lanes) * lanes + lanes
        self.turned = emit.scratch(f32, [reach, reach, lanes])
        self.data = emit.scratch(f32, [reach, reach, self.rows, wide])
        self.sums = emit.scratch(f32, [self.rows, reach, reach, self.panels * lanes])
        self.halves = emit.scratch(f32, [results, reach, lanes])

    def build(self) -> tile.KernelOp:
        """Emit the program and close the kernel."""
        emit, kernel = self.emit, self.kernel
        count = product(self.op.tiles)
        self.first = emit.times(kernel.program(0), self.rows)
        left = emit.add(arith.SubiOp(emit.extent(count), self.first))
        self.existing = emit.add(arith.MinSIOp(left, emit.index(self.rows)))
        self.panel = emit.times(kernel.program(1), self.panels)
        blocks = -(-self.depth // self.block)
        if blocks == 1:
            self._block(emit.index(0), emit.index(self.depth), fresh=True)
        else:
            self._clear()
            self.tiles.each(self.depth, self._some, step=self.block)
        self.tiles.each(self.existing, self._results)
        return kernel.finish([count.ceildiv(self.rows), self.programs])

    def _some(self, start: SSAValue) -> None:
        """Take in the channels of a block."""
        emit = self.emit
        left = emit.add(arith.SubiOp(emit.index(self.depth), start))
        size = emit.index(self.block)
        if self.depth % self.block:
            size = emit.add(arith.MinSIOp(left, size))
        self._block(start, size, fresh=False)

    def _block(self, start: SSAValue, size: SSAValue, *, fresh: bool) -> None:
        """Transform the tiles' channels from `start` on, and add their products to the sums."""
        self.tiles.each(self.existing, lambda tile: self._transform(tile, start, size))
        emit = self.emit
        blocks = emit.over(emit.plus(self.existing, self.abreast - 1), self.abreast)

        def point(i: SSAValue, j: SSAValue) -> None:
            def columns(q: SSAValue) -> None:
                self.tiles.each(blocks, lambda s: self._product(i, j, q, s, start, size, fresh))

            self.tiles.each(self.panels, columns, step=self.at_once)

        reach = self.op.reach
        self.tiles.each(reach, lambda i: self.tiles.each(reach, lambda j: point(i, j)))

    def _clear(self) -> None:
        """Begin all sums with 0."""
        emit, reach = self.emit, self.op.reach
        zero = emit.full(0, f32, [1, 1, reach, self.lanes])
        every = Span(emit.index(0), reach, inside=True)

        def one(r: SSAValue, i: SSAValue, q: SSAValue) -> None:
            where = (self._one(r), self._one(i), every, self._lanes(q))
            self.tiles.store(zero, self.sums, where)

        each = self.tiles.each
        each(self.rows, lambda r: each(reach, lambda i: each(self.panels, lambda q: one(r, i, q))))

    def _one(self, at: SSAValue) -> Span:
        return Span(at, 1, inside=True)

    def _lanes(self, panel: SSAValue) -> Span:
        return Span(self.emit.times(panel, self.lanes), self.lanes, inside=True)

    def _place(self, number: SSAValue) -> list[SSAValue]:
        """Return the image of a program's tile, and its first row and column there."""
        emit, op = self.emit, self.op
        found = emit.add(arith.AddiOp(self.first, number))
        image, *at = self.kernel.unravel(found, op.tiles)
        return [image, *(emit.times(each, op.results_abreast) for each in at)]

    # Data

    def _transform(self, number: SSAValue, start: SSAValue, size: SSAValue) -> None:
        """Write B^T d B of a tile, for the channels of a block."""
        emit, op = self.emit, self.op
        image, *at = self._place(number)
        low = values(op.pads)[0::2]
        top, left = (
            emit.add(arith.SubiOp(where, emit.index(pad))) if pad else where
            for where, pad in zip(at, low, strict=True)
        )

        def some(c: SSAValue) -> None:
            channel = emit.add(arith.AddiOp(start, c))
            whole = self.depth % self.lanes == 0
            channels = Span(channel, self.lanes, inside=whole)
            self._turn(
                lambda j: self._met(image, top, emit.add(arith.AddiOp(left, j)), channels),
                self.turned,
                lambda i, found: self._keep(number, c, i, found),
            )

        self.tiles.each(size, some, step=self.lanes)

    def _met(self, image: SSAValue, row: SSAValue, column: SSAValue, c: Span) -> SSAValue:
        """Return what a tile meets in one column: [reach, lanes]."""
        where = (self._one(image), Span(row, self.op.reach), Span(column, 1), c)
        found = self.tiles.load(self.x, where)
        return self.emit.reshape(found, [self.op.reach, self.lanes])

    def _turn(
        self,
        column: Callable[[SSAValue], SSAValue],
        room: SSAValue,
        keep: Callable[[SSAValue, list[SSAValue]], None],
    ) -> None:
        """Transform columns into `room`, and its rows into what is kept."""
        emit, reach = self.emit, self.op.reach
        lanes = Span(emit.index(0), self.lanes, inside=True)

        def down(j: SSAValue) -> None:
            for i, value in enumerate(combined(emit, self.matrices.b, self._parts(column(j)))):
                where = (self._one(emit.index(i)), self._one(j), lanes)
                self.tiles.store(emit.reshape(value, [1, 1, self.lanes]), room, where)

        def across(i: SSAValue) -> None:
            where = (self._one(i), Span(emit.index(0), reach, inside=True), lanes)
            row = emit.reshape(self.tiles.load(room, where), [reach, self.lanes])
            keep(i, combined(emit, self.matrices.b, self._parts(row)))

        self.tiles.each(reach, down)
        self.tiles.each(reach, across)

    def _parts(self, x: SSAValue) -> list[SSAValue]:
        """Return the rows of [reach, lanes]."""
        emit, lanes = self.emit, self.lanes
        return [
            emit.reshape(emit.add(tile.SliceOp(x, [i, 0], [1, lanes])), [lanes])
            for i in range(self.op.reach)
        ]

    def _keep(self, number: SSAValue, c: SSAValue, i: SSAValue, found: list[SSAValue]) -> None:
        lanes = Span(c, self.lanes, inside=True)
        for j, value in enumerate(found):
            where = (self._one(i), self._one(self.emit.index(j)), self._one(number), lanes)
            self.tiles.store(self.emit.reshape(value, [1, 1, 1, self.lanes]), self.data, where)

    # Products

    def _product(
        self,
        i: SSAValue,
        j: SSAValue,
        q: SSAValue,
        s: SSAValue,
        start: SSAValue,
        size: SSAValue,
        fresh: bool,
    ) -> None:
        """Add what some tiles have at a point, times its weights, to their sums."""
        emit, tiles, rows = self.emit, self.tiles, self.abreast
        tiles_here = Span(emit.times(s, rows), rows, inside=True)
        columns = Span(emit.times(q, self.lanes), self.at_once * self.lanes, inside=True)
        where = (tiles_here, self._one(i), self._one(j), columns)
        shape = [rows, self.at_once, self.lanes]
        zero = emit.full(0, f32, shape)
        before = zero if fresh else emit.reshape(tiles.load(self.sums, where), shape)
        panel = Span(emit.add(arith.AddiOp(self.panel, q)), self.at_once, inside=True)
        ahead = Span(emit.plus(panel.start, self.at_once), self.at_once)
        point = self._one(emit.add(arith.AddiOp(emit.times(i, self.op.reach), j)))
        lanes = Span(emit.index(0), self.lanes, inside=True)

        def some(k: SSAValue, acc: SSAValue) -> Sequence[SSAValue]:
            here = Span(k, self.step, inside=True)
            a = tiles.load(self.data, (self._one(i), self._one(j), tiles_here, here))
            channels = Span(emit.add(arith.AddiOp(start, k)), self.step, inside=True)
            b = tiles.load(self.w, (point, panel, channels, lanes))
            tiles.prefetch(self.w, (point, ahead, channels, lanes))
            a = emit.reshape(a, [rows, self.step])
            b = emit.reshape(b, [self.at_once, self.step, self.lanes])
            return [emit.add(tile.DotOp(a, b, acc, [(1, 1)]))]

        (total,) = tiles.loop(emit.index(0), size, emit.index(self.step), [before], some)
        flat = [rows, 1, 1, self.at_once * self.lanes]
        tiles.store(emit.reshape(total, flat), self.sums, where)

    # Results

    def _results(self, number: SSAValue) -> None:
        """Write the results of a tile, and what follows."""
        emit, op, results = self.emit, self.op, self.op.results_abreast
        image, top, left = self._place(number)
        _, height, width = op.positions
        below = emit.add(arith.SubiOp(emit.extent(height), top))
        rows = emit.index(results)
        if height.constant is None or height.constant % results:
            rows = emit.add(arith.MinSIOp(below, rows))
        first = emit.add(arith.MuliOp(image, emit.extent(height)))
        first = emit.add(arith.AddiOp(first, top))
        whole = width.constant is not None and width.constant % results == 0

        def panel(q: SSAValue) -> None:
            self._down(number, q)

            def row(i: SSAValue) -> None:
                begin = emit.add(arith.AddiOp(first, i))
                begin = emit.add(arith.MuliOp(begin, emit.extent(width)))
                limit = None if whole else emit.add(arith.AddiOp(begin, emit.extent(width)))
                start = emit.add(arith.AddiOp(begin, left))
                self._finish(i, q, Span(start, results, whole, limit))

            self.tiles.each(rows, row)

        self.tiles.each(self.panels, panel)

    def _down(self, number: SSAValue, q: SSAValue) -> None:
        """Transform the sums of a tile in each column."""
        emit, reach = self.emit, self.op.reach

        def column(j: SSAValue) -> None:
            every = Span(emit.index(0), reach, inside=True)
            where = (self._one(number), every, self._one(j), self._lanes(q))
            sums = emit.reshape(self.tiles.load(self.sums, where), [reach, self.lanes])
            for i, value in enumerate(combined(emit, self.matrices.a, self._parts(sums))):
                lanes = Span(emit.index(0), self.lanes, inside=True)
                at = (self._one(emit.index(i)), self._one(j), lanes)
                self.tiles.store(emit.reshape(value, [1, 1, self.lanes]), self.halves, at)

        self.tiles.each(reach, column)

    def _finish(self, i: SSAValue, q: SSAValue, rows: Span) -> None:
        """Compute a row of a tile's results and what follows, and store it."""
        emit, lanes, results = self.emit, self.lanes, self.op.results_abreast
        every = Span(emit.index(0), self.op.reach, inside=True)
        half = (self._one(i), every, Span(emit.index(0), lanes, inside=True))
        row = emit.reshape(self.tiles.load(self.halves, half), [self.op.reach, lanes])
        found = combined(emit, self.matrices.a, self._parts(row))
        joined = emit.add(tile.JoinOp([emit.reshape(y, [1, lanes]) for y in found], 0))
        outputs = self.op.outputs.constant
        whole = outputs is not None and outputs % lanes == 0
        start = emit.times(emit.add(arith.AddiOp(self.panel, q)), lanes)
        columns = Span(start, lanes, inside=whole)
        if follows_in_registers(self.kernel, self.op):
            self.tiles.fix(self.op.y, emit.reshape(joined, [results, lanes]))
            self.kernel.store([rows], columns)
            return
        kept = emit.scratch(f32, [results, lanes])
        every = Span(emit.index(0), lanes, inside=True)
        self.tiles.store(joined, kept, (Span(emit.index(0), results, inside=True), every))

        def one(n: SSAValue) -> None:
            self.tiles.fix(self.op.y, self.tiles.load(kept, (self._one(n), every)))
            self.kernel.store([self._one(emit.add(arith.AddiOp(rows.start, n)))], columns)

        existing = emit.index(results)
        if rows.limit is not None:
            left = emit.add(arith.SubiOp(rows.limit, rows.start))
            existing = emit.add(arith.MinSIOp(left, existing))
        self.tiles.each(existing, one)
