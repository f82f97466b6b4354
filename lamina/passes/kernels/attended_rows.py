"""Rows of queries that look at pages of keys and values: running maxima, sums and weighted values.

All rows are scored together; maxima follow row by row, then powers and sums, so that the chains of
several rows overlap; then the results, a group of rows and a part of their columns at a time. What
rows have lies in memory of the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, f32, i32
from xdsl.ir import SSAValue

from lamina.dialects import cache, tile
from lamina.dialects.cache import PagesType
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents
from lamina.passes.kernels.kernel import Kernel
from lamina.passes.kernels.merge_kernel import LOWEST
from lamina.passes.kernels.subscripts import Index, Span

GROUP = 4
"""Rows of a group, at most: a single token has few rows, and those of no token are not summed."""

SUMS = 128
"""Scores in registers at once: 8 registers of 512 bits."""

VALUES = 192
"""Sums of values in registers at once, so many that the loads of weights are lost among them."""

STEP = 16
"""Columns of a row that a thread by itself scales, clears or lets decay at once."""

RUN = 4
"""Neighbours of 16 bytes that are loaded at once."""

WORDS = 16
"""Keys of a tile where their layout has none."""


@dataclass(frozen=True)
class Seen:
    """A page that rows look at: its number, the head, its first key's position, and its keys."""

    number: SSAValue
    head: SSAValue
    begin: SSAValue
    left: SSAValue


@dataclass(frozen=True)
class Sums:
    """What rows have so far: their maxima, the sums of their weights, and the weighted values."""

    tops: SSAValue
    totals: SSAValue
    values: SSAValue


@dataclass(frozen=True)
class Entry:
    """Tokens `first … high` of a sequence, of which a program has `count`, and a key-value head.

    The last key that any of them sees is `last`.
    """

    sequence: SSAValue
    head: SSAValue
    first: SSAValue
    high: SSAValue
    last: SSAValue
    count: SSAValue


class AttendedRows:
    """The rows of one program: `block` tokens by the query heads that share a key-value head."""

    def __init__(
        self, kernel: Kernel, op: cache.AttentionOp | cache.PartialAttentionOp, block: int
    ) -> None:
        """Take the sizes of an operation, and memory of the kernel's program."""
        self.op, self.tiles, self.emit = op, kernel.tiles, kernel.emit
        self.pages = cast("PagesType", op.k.type)
        self.page = self.pages.page.value.data
        self.width = self.pages.dim.value.data
        self.heads = self.pages.heads.value.data
        self.shared = extents(op.q.type)[1].evaluate({}) // self.heads
        self.block = block
        self.rows = self.block * self.shared
        self.group = max(n for n in range(1, GROUP + 1) if self.rows % n == 0)
        self.columns = self.width
        self.grain = self.pages.tile.value.data or gcd(self.page, WORDS)
        self.abreast = self._most_keys()
        while self.columns % 32 == 0 and self.group * self.columns > VALUES:
            self.columns //= 2
        # Where threads share a row it is handled as one; a thread by itself goes on in short steps.
        self.step = self.columns if op.span is not None else gcd(self.width, STEP)
        self.all_rows = Span(self.emit.index(0), self.rows, inside=True)
        self._take_memory()

    def _take_memory(self) -> None:
        """Take memory of the kernel's program for queries, scores and what rows have."""
        emit = self.emit
        self.queries = emit.add(tile.ScratchOp(f32, [self.rows, self.width]))
        self.weights = emit.add(tile.ScratchOp(f32, [self.rows, self.page + self.grain]))
        self.sums = self.room()

    def room(self) -> Sums:
        """Return memory for what rows have."""
        shapes = [self.rows], [self.rows], [self.rows, self.width]
        return Sums(*(self.emit.add(tile.ScratchOp(f32, shape)) for shape in shapes))

    def _most_keys(self) -> int:
        """Return how many keys of a page are scored at once: as many tiles of them as fit."""
        counts = range(self.grain, self.page + 1, self.grain)
        fits = (n for n in counts if self.page % n == 0 and n * self.rows <= SUMS)
        return max(fits, default=self.grain)

    def entry(self, sequence: SSAValue, head: SSAValue, first: SSAValue, high: SSAValue) -> Entry:
        """Return the tokens `first … high` of a sequence, as many as a block holds."""
        emit, op = self.emit, self.op
        held = Span(first, self.block, limit=high)
        position = self.tiles.load(self.tiles.memrefs[op.positions], (held,))
        last = emit.cast(emit.reduce(position, "max", [0]), IndexType())
        last = self.clamped(last, extents(op.table.type)[1] * self.page)
        return Entry(sequence, head, first, high, last, self._tokens(first, high))

    def _tokens(self, first: SSAValue, high: SSAValue) -> SSAValue:
        """Return how many tokens a block has, at least one: others than the last have all."""
        emit = self.emit
        left = emit.add(arith.SubiOp(high, first))
        count = emit.add(arith.MinSIOp(left, emit.index(self.block)))
        return emit.add(arith.MaxSIOp(count, emit.index(1)))

    def number(self, value: SSAValue, *at: SSAValue | int) -> SSAValue:
        """Load one integer of a tensor as an index."""
        emit, memref = self.emit, self.tiles.memrefs[value]
        where = [emit.index(i) if isinstance(i, int) else i for i in at]
        ones = [1] * len(where)
        inside = range(len(where))
        return emit.cast(
            emit.add(tile.LoadOp(memref, where, ones, i32, in_bounds=list(inside))), IndexType()
        )

    def clamped(self, x: SSAValue, extent: Dim) -> SSAValue:
        """Return an index within an extent: what a caller writes down may not lead outside."""
        emit = self.emit
        below = emit.add(arith.MinSIOp(x, emit.extent(extent - 1)))
        return emit.add(arith.MaxSIOp(below, emit.index(0)))

    def ask(self, entry: Entry) -> None:
        """Scale the queries of an entry's rows; where no span divides pages, clear values too."""
        emit, tiles = self.emit, self.tiles
        size = self.step
        shape = (1, size)
        scale, zero = (emit.full(n, f32, shape) for n in (self.op.scale.value.data, 0.0))

        def row(r: SSAValue) -> None:
            one = Span(r, 1, inside=True)
            token = Span(self._token(r, entry), 1, inside=True)
            own = emit.plus(emit.times(entry.head, self.shared), emit.modulo(r, self.shared))

            def part(at: SSAValue) -> None:
                columns = Span(at, size, inside=True)
                q = tiles.tile_of(self.op.q, (token, Span(own, 1, inside=True), columns))
                scaled = emit.binary(arith.MulfOp, emit.reshape(q, shape), scale)
                tiles.store(scaled, self.queries, (one, columns))
                if self.op.span is None:
                    tiles.store(zero, self.sums.values, (one, columns))

            tiles.each(self.width, part, size)

        tiles.each(self.rows, row)

    def clear(self, sums: Sums) -> None:
        """Let rows have no maximum, and nothing summed."""
        emit, tiles = self.emit, self.tiles
        tiles.store(emit.full(LOWEST, f32, [self.rows]), sums.tops, (self.all_rows,))
        tiles.store(emit.full(0.0, f32, [self.rows]), sums.totals, (self.all_rows,))
        if self.op.span is None:
            # Done while the queries are scaled.
            return
        zero = emit.full(0.0, f32, (self.group, self.columns))

        def some(at: SSAValue) -> None:
            rows = Span(at, self.group, inside=True)
            tiles.each(self.width, lambda first: put(rows, first), self.columns)

        def put(rows: Span, first: SSAValue) -> None:
            tiles.store(zero, sums.values, (rows, Span(first, self.columns, inside=True)))

        tiles.each(self.rows, some, self.group)

    def look(self, entry: Entry, low: SSAValue, high: SSAValue) -> None:
        """Let rows look at the pages `low … high` of their sequence."""
        emit, tiles = self.emit, self.tiles
        rows = emit.times(entry.count, self.shared)

        def page(j: SSAValue) -> Sequence[SSAValue]:
            seen = self._seen(entry, j)
            after = emit.add(arith.MinSIOp(emit.plus(j, 1), emit.over(entry.last, self.page)))
            self._all_scores(seen, self._seen(entry, after))
            tiles.each(rows, lambda row: self._raise_top(row, seen, entry.first))
            tiles.each(rows, self._weigh)
            if self.op.span is not None:
                self._add_in_order()
            tiles.each(rows, lambda at: self._values(at, seen), self.group)
            return []

        tiles.loop(low, high, emit.index(1), [], page)

    def _seen(self, entry: Entry, j: SSAValue) -> Seen:
        """Return where page `j` of a sequence lies, and how many keys of it are looked at."""
        emit = self.emit
        number = self.number(self.op.table, entry.sequence, j)
        number = self.clamped(number, extents(self.pages.storage)[0])
        begin = emit.times(j, self.page)
        after = emit.add(arith.SubiOp(emit.plus(entry.last, 1), begin))
        left = emit.add(arith.MinSIOp(after, emit.index(self.page)))
        return Seen(number, entry.head, begin, left)

    def _raise_top(self, row: SSAValue, seen: Seen, first: SSAValue) -> None:
        """Hide what a row may not see of a page, and bring the row's maximum up to date.

        Behind the scores is kept the maximum so far: what it becomes is what the old sum decays by.
        A NaN among the scores is passed over: powers and sum of its row become NaN anyway.
        """
        emit, tiles = self.emit, self.tiles
        token = emit.add(arith.AddiOp(first, emit.over(row, self.shared)))
        position = tiles.tile_of(self.op.positions, (Span(token, 1, inside=True),))
        one, end = Span(row, 1, inside=True), emit.index(self.page)
        former = tiles.load(self.sums.tops, (one,))
        before = emit.broadcast(former, [0], (1, self.grain))
        tiles.store(before, self.weights, (one, Span(end, self.grain, inside=True)))

        def some(at: SSAValue, top: SSAValue) -> Sequence[SSAValue]:
            keys = Span(at, self.grain, inside=True)
            loaded = tiles.load(self.weights, (one, keys))
            scores = self._masked(loaded, emit.binary(arith.AddiOp, seen.begin, at), position)
            tiles.store(scores, self.weights, (one, keys))
            higher = emit.add(tile.CompareOp("lt", top, scores))
            return [emit.add(tile.SelectOp(higher, scores, top))]

        turns = (emit.index(0), end, emit.index(self.grain))
        (found,) = tiles.loop(*turns, [before], some)
        tiles.store(self._largest(found), self.sums.tops, (one,))

    def _largest(self, x: SSAValue) -> SSAValue:
        """Return the largest of a row, which is no NaN, by integers that order as floats do."""
        emit, shape = self.emit, tile.shape_of(x.type)
        bits = emit.add(arith.BitcastOp(x, tile.vector(i32, shape)))
        found = self._turned(emit.reduce(self._turned(bits), "max", [1]))
        return emit.add(arith.BitcastOp(found, tile.vector(f32, shape[:1])))

    def _turned(self, x: SSAValue) -> SSAValue:
        """Turn round the order of integers below 0, as floats there have it."""
        emit, shape = self.emit, tile.shape_of(x.type)
        sign = emit.binary(arith.ShRSIOp, x, emit.full(31, i32, shape))
        below = emit.binary(arith.AndIOp, sign, emit.full(0x7FFFFFFF, i32, shape))
        return emit.binary(arith.XOrIOp, x, below)

    def _weigh(self, row: SSAValue) -> None:
        """Let a row's scores become the keys' weights, and its sums so far decay."""
        emit, tiles = self.emit, self.tiles
        one, end = Span(row, 1, inside=True), emit.index(self.page)
        shape = (1, self.grain)
        higher = emit.broadcast(tiles.load(self.sums.tops, (one,)), [0], shape)

        def some(at: SSAValue, added: SSAValue, before: SSAValue) -> Sequence[SSAValue]:
            where = (one, Span(at, self.grain, inside=True))
            power = emit.decay(emit.binary(arith.SubfOp, tiles.load(self.weights, where), higher))
            tiles.store(power, self.weights, where)
            return [emit.binary(arith.AddfOp, added, before), power]

        zero = emit.full(0.0, f32, shape)
        turns = (emit.index(0), emit.plus(end, self.grain), emit.index(self.grain))
        added, _ = tiles.loop(*turns, [zero, zero], some)
        decay = tiles.load(self.weights, (one, Span(end, 1, inside=True)), shape=(1,))
        if self.op.span is None:
            total = tiles.load(self.sums.totals, (one,))
            total = emit.fma(total, decay, emit.reduce(added, "add", [1]))
            tiles.store(total, self.sums.totals, (one,))
        size = self.step
        by = emit.broadcast(decay, [0], (1, size))

        def decayed(first: SSAValue) -> None:
            where = one, Span(first, size, inside=True)
            tiles.store(
                emit.binary(arith.MulfOp, tiles.load(self.sums.values, where), by),
                self.sums.values,
                where,
            )

        tiles.each(self.width, decayed, size)

    def _add_in_order(self) -> None:
        """Add all rows' weights to their sums, key by key, as no layout of threads changes it."""
        end = Span(self.emit.index(self.page), 1, inside=True)
        decay = self.tiles.load(self.weights, (self.all_rows, end), shape=(self.rows,))
        self.add_weights(decay)

    def add_weights(self, decay: SSAValue) -> None:
        """Let all rows' sums decay, and add the weights of a page, one after another."""
        emit, tiles, run = self.emit, self.tiles, gcd(self.page, RUN)
        ones = emit.full(1.0, f32, [run])

        def some(at: SSAValue, sum: SSAValue) -> Sequence[SSAValue]:
            weights = tiles.load(self.weights, (self.all_rows, Span(at, run, inside=True)))
            return [emit.add(tile.DotOp(weights, ones, sum, [(1, 0)]))]

        turns = emit.index(0), emit.index(self.page), emit.index(run)
        (sum,) = tiles.loop(*turns, [emit.full(0.0, f32, [self.rows])], some)
        total = tiles.load(self.sums.totals, (self.all_rows,))
        tiles.store(emit.fma(total, decay, sum), self.sums.totals, (self.all_rows,))

    def _token(self, row: SSAValue, entry: Entry) -> SSAValue:
        """Return the token that a row belongs to; the last one for rows of none."""
        emit = self.emit
        token = emit.add(arith.AddiOp(entry.first, emit.over(row, self.shared)))
        return emit.add(arith.MinSIOp(token, emit.add(arith.SubiOp(entry.high, emit.index(1)))))

    def _all_scores(self, seen: Seen, following: Seen) -> None:
        """Keep the products of scaled queries with a page."""

        def some(at: SSAValue) -> None:
            keys = Span(at, self.abreast, inside=True)
            scores = self._scores(seen, following, at)
            self.tiles.store(scores, self.weights, (self.all_rows, keys))

        if self.abreast == self.page:
            some(self.emit.index(0))
        else:
            self.tiles.each(seen.left, some, self.abreast)

    def _scores(self, seen: Seen, following: Seen, at: SSAValue) -> SSAValue:
        """Products of scaled queries with `abreast` keys, from key `at` of the page on.

        A page lies anywhere: the following one is asked for meanwhile.
        """
        emit, grain, memrefs = self.emit, self.pages.tile.value.data, self.tiles.memrefs
        shape = (self.abreast // grain, 1, grain) if grain else (self.abreast, 1)
        start = emit.full(0.0, f32, (self.rows, *shape[:1], *shape[2:]))

        def some(d: SSAValue, acc: SSAValue) -> Sequence[SSAValue]:
            column = Span(d, 1, inside=True)
            self.tiles.prefetch(memrefs[self.op.k], self._keys(following, at, column))
            self.tiles.prefetch(memrefs[self.op.v], self._share(following, at, d))
            q = self.tiles.load(self.queries, (self.all_rows, column))
            keys = self.tiles.load(memrefs[self.op.k], self._keys(seen, at, column), shape=shape)
            return [emit.add(tile.DotOp(q, emit.cast(keys, f32), acc, [(1, 1)]))]

        bounds = (emit.index(0), emit.index(self.width), emit.index(1))
        (scores,) = self.tiles.loop(*bounds, [start], some)
        return emit.reshape(scores, (self.rows, self.abreast))

    def _share(self, following: Seen, at: SSAValue, d: SSAValue) -> Index:
        """Where column `d`'s share of `abreast` values lies, from value `at` of a page on."""
        emit = self.emit
        rows = max(1, self.abreast // self.width)
        turns = max(1, self.width // self.abreast)
        row = emit.add(arith.AddiOp(at, emit.times(emit.over(d, turns), rows)))
        size = -(-self.width // turns)
        column = emit.times(emit.modulo(d, turns), size)
        spans = Span(row, rows, inside=True), Span(column, size, inside=True)
        return self._rows_of(following, *spans)

    def _masked(self, scores: SSAValue, begin: SSAValue, position: SSAValue) -> SSAValue:
        """Return a row's scores from key `begin` on, -inf for keys behind `position`."""
        emit, shape = self.emit, tile.shape_of(scores.type)
        count = shape[-1]
        key = emit.add(tile.IotaOp(i32, count))
        first = emit.add(tile.SplatOp(emit.cast(begin, i32), [count]))
        key = emit.broadcast(emit.binary(arith.AddiOp, key, first), [1], shape)
        looks = emit.add(tile.CompareOp("le", key, emit.broadcast(position, [0], shape)))
        hidden = emit.full(float("-inf"), f32, shape)
        return emit.add(tile.SelectOp(looks, scores, hidden))

    def _keys(self, seen: Seen, at: SSAValue, columns: Span) -> Index:
        """Where some columns of `abreast` keys lie, from key `at` of a page on."""
        grain, keys = self.pages.tile.value.data, Span(at, self.abreast, inside=True)
        if not grain:
            return self._rows_of(seen, keys, columns)
        tiles = Span(self.emit.over(at, grain), self.abreast // grain, inside=True)
        return (*self._page(seen), tiles, columns, Span(self.emit.index(0), grain, inside=True))

    def _rows_of(self, seen: Seen, rows: Span, columns: Span) -> Index:
        """Where rows of a page lie that is not tiled, a key or value each."""
        return (*self._page(seen), rows, columns)

    def _page(self, seen: Seen) -> tuple[Span, Span]:
        return Span(seen.number, 1, inside=True), Span(seen.head, 1, inside=True)

    def _values(self, at: SSAValue, seen: Seen) -> None:
        """Add a page's values by their weights to the results of a group of rows."""
        tiles, rows = self.tiles, Span(at, self.group, inside=True)

        def part(first: SSAValue) -> None:
            columns = Span(first, self.columns, inside=True)
            out = tiles.load(self.sums.values, (rows, columns))
            tiles.store(self._added(rows, columns, seen, out), self.sums.values, (rows, columns))

        tiles.each(self.width, part, self.columns)

    def _added(self, rows: Span, columns: Span, seen: Seen, out: SSAValue) -> SSAValue:
        """Return `out` with the values of the keys that were written: no others are looked at."""
        emit, memref = self.emit, self.tiles.memrefs[self.op.v]

        def one(i: SSAValue, acc: SSAValue) -> Sequence[SSAValue]:
            row = Span(i, 1, inside=True)
            weight = self.tiles.load(self.weights, (rows, row))
            at = self._rows_of(seen, row, columns)
            value = self.tiles.load(memref, at, shape=(1, columns.size))
            return [emit.add(tile.DotOp(weight, emit.cast(value, f32), acc, [(1, 0)]))]

        return self.tiles.loop(emit.index(0), seen.left, emit.index(1), [out], one)[0]
