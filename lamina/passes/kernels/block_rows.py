"""Rows of several tokens that look at pages together: each page is read once for all of them.

Threads share a tile of scores, rows by the keys of a page, and one of values, rows by columns;
keys and values come through memory of the program, some at a time. For a row the order of
arithmetic is that of `AttendedRows` where positions are summed up in parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, f32, i32
from xdsl.ir import SSAValue

from lamina.dialects import tile
from lamina.passes.kernels.attended_rows import RUN, AttendedRows, Entry, Seen, Sums
from lamina.passes.kernels.merge_kernel import LOWEST, Merging
from lamina.passes.kernels.subscripts import Rows, Span

STAGED = 16
"""Columns of a page's keys, or values, that lie in memory of the program at once."""

MOST_VALUES = 3072
"""Weighted values of the rows of a program, which 64 threads hold twice in 48 registers each."""

MOST_BYTES = 28 << 10
"""Bytes for queries, weights, and what is staged: devices have 32 KiB for a program at least."""


def fits(rows: int, page: int, width: int) -> bool:
    """Tell whether so many rows of a width have room, with the weights of a page's keys."""
    numbers = rows * (width + page + 6) + STAGED * max(page, width)
    return rows * width <= MOST_VALUES and 4 * numbers <= MOST_BYTES


class BlockRows(AttendedRows):
    """The rows of the tokens of an entry; values stay in registers from page to page."""

    def _take_memory(self) -> None:
        emit, rows = self.emit, self.rows
        self.queries = emit.scratch(f32, [rows, self.width])
        self.weights = emit.scratch(f32, [rows, self.page])
        self.staged = emit.scratch(f32, [STAGED, max(self.page, self.width)])
        self.positions = emit.scratch(i32, [rows])
        # Queries are needed no more when values are finished.
        self.sums, self.kept = (
            Sums(emit.scratch(f32, [rows]), emit.scratch(f32, [rows]), self.queries)
            for _ in range(2)
        )
        self.all_columns = Span(emit.index(0), self.width, inside=True)
        self.all_keys = Span(emit.index(0), self.page, inside=True)

    def no_values(self) -> SSAValue:
        """Return values of rows that have seen nothing, [rows, width]."""
        return self.emit.full(0.0, f32, [self.rows, self.width])

    def ask(self, entry: Entry) -> None:
        """Scale the queries of an entry's rows, and keep how far each row sees."""
        super().ask(entry)
        emit, index, size = self.emit, IndexType(), [self.rows]
        rows = emit.add(tile.IotaOp(index, self.rows))
        token = emit.binary(arith.DivUIOp, rows, emit.full(self.shared, index, size))
        token = emit.binary(arith.AddiOp, token, emit.add(tile.SplatOp(entry.first, size)))
        last = emit.add(arith.SubiOp(entry.high, emit.index(1)))
        token = emit.binary(arith.MinSIOp, token, emit.add(tile.SplatOp(last, size)))
        memref = self.tiles.memrefs[self.op.positions]
        found = self.tiles.load(memref, (Rows(token, self.rows),))
        self.tiles.store(found, self.positions, (self.all_rows,))

    def clear(self, sums: Sums) -> None:
        """Let rows have no maximum, and no sum of weights."""
        emit, tiles = self.emit, self.tiles
        tiles.store(emit.full(LOWEST, f32, [self.rows]), sums.tops, (self.all_rows,))
        tiles.store(emit.full(0.0, f32, [self.rows]), sums.totals, (self.all_rows,))

    def add_part(self, entry: Entry, low: SSAValue, high: SSAValue, values: SSAValue) -> SSAValue:
        """Return `values` [rows, width] merged with what the pages `low … high` give."""
        self.clear(self.sums)

        def page(j: SSAValue, before: SSAValue) -> Sequence[SSAValue]:
            return [self._look_at(self._seen(entry, j), before)]

        turns = low, high, self.emit.index(1)
        (part,) = self.tiles.loop(*turns, [self.no_values()], page)
        return self._merged(self.emit.times(low, self.page), values, part)

    def finish(self, values: SSAValue) -> None:
        """Put what rows have where the kernel's end finds it."""
        self.tiles.store(values, self.kept.values, (self.all_rows, self.all_columns))

    def _look_at(self, seen: Seen, values: SSAValue) -> SSAValue:
        """Return `values` with those of a page, and bring maxima and sums up to date."""
        emit, tiles, shape = self.emit, self.tiles, (self.rows, self.page)
        position = tiles.load(self.positions, (self.all_rows,))
        scores = self._masked(self._page_scores(seen), seen.begin, position)
        former = tiles.load(self.sums.tops, (self.all_rows,))
        before = emit.broadcast(former, [0], shape)
        higher = emit.add(tile.CompareOp("lt", before, scores))
        top = self._largest(emit.add(tile.SelectOp(higher, scores, before)))
        less = emit.binary(arith.SubfOp, scores, emit.broadcast(top, [0], shape))
        tiles.store(emit.decay(less), self.weights, (self.all_rows, self.all_keys))
        decay = emit.decay(emit.binary(arith.SubfOp, former, top))
        tiles.store(top, self.sums.tops, (self.all_rows,))
        self.add_weights(decay)
        by = emit.broadcast(decay, [0], (self.rows, self.width))
        return self._with_values(seen, emit.binary(arith.MulfOp, values, by))

    def _page_scores(self, seen: Seen) -> SSAValue:
        """Return the products of scaled queries with the keys of a page, [rows, page]."""
        emit, tiles, grain = self.emit, self.tiles, self.pages.tile.value.data
        size, count = gcd(self.width, STAGED), self.page // (grain or self.page)
        memref = tiles.memrefs[self.op.k]

        def stage(at: SSAValue) -> SSAValue:
            columns, every = Span(at, size, inside=True), Span(emit.index(0), count, inside=True)
            if not grain:
                where = self._rows_of(seen, self.all_keys, columns)
                keys = tiles.load(memref, where, shape=(self.page, size))
                return emit.add(tile.TransposeOp(emit.cast(keys, f32), [1, 0]))
            where = (*self._page(seen), every, columns, Span(emit.index(0), grain, inside=True))
            keys = emit.cast(tiles.load(memref, where, shape=(count, size, grain)), f32)
            if count > 1:
                keys = emit.add(tile.TransposeOp(keys, [1, 0, 2]))
            return emit.reshape(keys, (size, self.page))

        none = emit.full(0.0, f32, (self.rows, self.page))
        return self._product(self.queries, stage, (self.width, size, self.page), none)

    def _with_values(self, seen: Seen, values: SSAValue) -> SSAValue:
        """Return `values` with those of a page by their weights; what was not written is 0."""
        emit, tiles, size = self.emit, self.tiles, gcd(self.page, STAGED)
        memref = tiles.memrefs[self.op.v]

        def stage(at: SSAValue) -> SSAValue:
            rows = Span(at, size, limit=seen.left)
            where = self._rows_of(seen, rows, self.all_columns)
            return emit.cast(tiles.load(memref, where, shape=(size, self.width)), f32)

        sizes = seen.left, size, self.width
        return self._product(self.weights, stage, sizes, values)

    def _product(
        self,
        left: SSAValue,
        stage: Callable[[SSAValue], SSAValue],
        sizes: tuple[SSAValue | int, int, int],
        sums: SSAValue,
    ) -> SSAValue:
        """Return `sums` with products of `left` in memory and what is staged, `size` at a time."""
        emit, tiles = self.emit, self.tiles
        depth, size, columns = sizes
        across, run = Span(emit.index(0), columns, inside=True), gcd(size, RUN)

        def some(at: SSAValue, before: SSAValue) -> Sequence[SSAValue]:
            every = Span(emit.index(0), size, inside=True)
            tiles.store(stage(at), self.staged, (every, across))

            def step(i: SSAValue, total: SSAValue) -> Sequence[SSAValue]:
                there = Span(emit.add(arith.AddiOp(at, i)), run, inside=True)
                a = tiles.load(left, (self.all_rows, there))
                b = tiles.load(self.staged, (Span(i, run, inside=True), across))
                return [emit.add(tile.DotOp(a, b, total, [(1, 0)]))]

            return tiles.loop(emit.index(0), emit.index(size), emit.index(run), [before], step)

        end = emit.index(depth) if isinstance(depth, int) else depth
        return tiles.loop(emit.index(0), end, emit.index(size), [sums], some)[0]

    def _merged(self, begin: SSAValue, values: SSAValue, part: SSAValue) -> SSAValue:
        """Return values of the parts before and of one more, for rows that see any of that."""
        emit, tiles, kept, own = self.emit, self.tiles, self.kept, self.sums
        rows = (self.all_rows,)
        before, top = (tiles.load(each.tops, rows) for each in (kept, own))
        merging = Merging(emit, before, top)
        position, first = tiles.load(self.positions, rows), emit.cast(begin, i32)

        def chosen(new: SSAValue, old: SSAValue) -> SSAValue:
            shape = tile.shape_of(new.type)
            start = emit.add(tile.SplatOp(first, shape))
            sees = tile.CompareOp("le", start, emit.broadcast(position, [0], shape))
            return emit.add(tile.SelectOp(emit.add(sees), new, old))

        former, total = (tiles.load(each.totals, rows) for each in (kept, own))
        result = chosen(merging.sum(values, part), values)
        tiles.store(chosen(merging.top, before), kept.tops, rows)
        tiles.store(chosen(merging.sum(former, total), former), kept.totals, rows)
        return result
