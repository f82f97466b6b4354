"""Build causal attention over paged keys and values, one pass with running maximum and sum.

A program takes one entry of the work list and one key-value head: `block` tokens by the query
heads that share it. Pages come in ascending order; a page's keys are scored together, then the
running maximum, sum and output are brought up to date (Milakov and Gimelshein 2018; Dao 2023).
A page that a row may not see leaves that row exactly as it was, so a row's bits do not depend on
the rows that share its program.

All rows are scored together. What follows goes through groups of rows, and through parts of the
result's columns, whose sums fit into registers: one group with all columns keeps them there from
page to page, else they lie in memory of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import IndexType, f32, i32
from xdsl.ir import SSAValue

from lamina.dialects import cache, nn, tile
from lamina.dialects.cache import PagesType
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents
from lamina.passes.kernels.kernel import Kernel
from lamina.passes.kernels.subscripts import Span

PIECE = 32
"""Columns of the result that are finished at once: a block of 8-bit activations."""

GROUP = 4
"""Rows of a group, or as many as one token has."""

KEPT = 256
"""Elements of the result that may stay in registers from page to page: 16 of 512 bits."""

SUMS = 64
"""Elements of the result that are summed up at once where not all stay: 4 registers of 512 bits,
or more where a group's rows need them for 16 columns."""


def build_attention(group: nn.GroupOp, name: str) -> tile.KernelOp:
    """Build the kernel of a group whose anchor is `cache.attention`."""
    kernel = Kernel(group, name)
    return _Builder(kernel, kernel.only(cache.AttentionOp)).build()


def piece_of(op: cache.AttentionOp) -> int:
    """Return how many columns are finished at once: part of a head if that holds whole blocks."""
    _, heads, width = extents(op.q.type)
    shared = heads.evaluate({}) // cast("PagesType", op.k.type).heads.value.data
    return PIECE if width % PIECE == 0 else shared * width.evaluate({})


@dataclass(frozen=True)
class Seen:
    """A page that rows look at: its number, the head, its first key's position, and its keys."""

    number: SSAValue
    head: SSAValue
    begin: SSAValue
    left: SSAValue


class _Builder:
    def __init__(self, kernel: Kernel, op: cache.AttentionOp) -> None:
        self.kernel, self.op = kernel, op
        self.tiles, self.emit = kernel.tiles, kernel.emit
        self.pages = cast("PagesType", op.k.type)
        self.page = self.pages.page.value.data
        self.width = self.pages.dim.value.data
        self.heads = self.pages.heads.value.data
        self.shared = extents(op.q.type)[1].evaluate({}) // self.heads
        self.block = op.block.value.data
        self.rows = self.block * self.shared
        self.grouped = self.rows * self.width > KEPT
        self.tokens, self.columns = self.block, self.width
        if self.grouped:
            few = max(1, GROUP // self.shared)
            self.tokens = max(n for n in range(1, few + 1) if self.block % n == 0)
        self.group = self.tokens * self.shared
        while self.grouped and self.columns % 32 == 0 and self.group * self.columns > SUMS:
            self.columns //= 2
        emit = self.emit
        self.queries = emit.add(tile.ScratchOp(f32, [self.rows, self.width]))
        self.weights = emit.add(tile.ScratchOp(f32, [self.rows, self.page]))
        self.totals = emit.add(tile.ScratchOp(f32, [self.rows]))
        self.sums = self.queries
        if self.grouped:
            self.tops = emit.add(tile.ScratchOp(f32, [self.rows]))
            self.sums = emit.add(tile.ScratchOp(f32, [self.rows, self.width]))
        self.all_rows = Span(emit.index(0), self.rows, inside=True)

    def build(self) -> tile.KernelOp:
        """Emit the program and close the kernel."""
        emit, op = self.emit, self.op
        entry, head = self.kernel.program(0), self.kernel.program(1)
        sequence, query_block = (self._number(op.work, entry, k) for k in (0, 1))
        sequence = self._clamped(sequence, extents(op.table.type)[0])
        low = self._number(op.query_start, sequence)
        high = self._number(op.query_start, emit.plus(sequence, 1))
        high = emit.add(arith.MinSIOp(high, emit.extent(extents(op.q.type)[0])))
        low = emit.add(arith.MaxSIOp(low, emit.index(0)))
        first = emit.add(arith.AddiOp(low, emit.times(query_block, self.block)))
        emit.when(emit.less(first, high), lambda: self._rows(sequence, head, first, high))
        return self.kernel.finish([extents(op.work.type)[0], Dim.of(self.heads)])

    def _number(self, value: SSAValue, *at: SSAValue | int) -> SSAValue:
        """Load one integer of a tensor as an index."""
        emit, memref = self.emit, self.tiles.memrefs[value]
        where = [emit.index(i) if isinstance(i, int) else i for i in at]
        ones = [1] * len(where)
        inside = range(len(where))
        return emit.cast(
            emit.add(tile.LoadOp(memref, where, ones, i32, in_bounds=list(inside))), IndexType()
        )

    def _clamped(self, x: SSAValue, extent: Dim) -> SSAValue:
        """Return an index within an extent: what a caller writes down may not lead outside."""
        emit = self.emit
        below = emit.add(arith.MinSIOp(x, emit.extent(extent - 1)))
        return emit.add(arith.MaxSIOp(below, emit.index(0)))

    def _rows(self, sequence: SSAValue, head: SSAValue, first: SSAValue, high: SSAValue) -> None:
        """Attend with the tokens `first … high` of a sequence, as many as a block holds."""
        emit, op = self.emit, self.op
        held = self.tiles.clamped_rows(first, self.block, high)
        position = self.tiles.tile_of(op.positions, (held,))
        last = emit.cast(emit.reduce(position, "max", [0]), IndexType())
        last = self._clamped(last, extents(op.table.type)[1] * self.page)
        pages = emit.plus(emit.over(last, self.page), 1)
        self._take_queries(head, first, high)
        start = [
            emit.full(float("-inf"), f32, [self.group]),
            emit.full(0.0, f32, [self.group]),
            emit.full(0.0, f32, [self.group, self.columns]),
        ]
        step = emit.index(1)

        def page(j: SSAValue, *state: SSAValue) -> Sequence[SSAValue]:
            seen = self._seen(sequence, head, j, emit.plus(last, 1))
            scores = self._scores(seen)
            if state:
                higher, total, power, decay = self._update(scores, seen, position, *state[:2])
                self._keep(self.weights, power)
                out = self._values(seen, self.all_rows, whole, self._scaled(state[2], decay))
                return [higher, total, out]
            self._keep(self.weights, scores)
            self._groups(lambda at: self._page_of_group(seen, at, first, high))
            return []

        whole = Span(emit.index(0), self.width, inside=True)
        if self.grouped:
            self._groups(lambda at: self._clear_group(at, start))
            self.tiles.loop(emit.index(0), pages, step, [], page)
        else:
            _, total, out = self.tiles.loop(emit.index(0), pages, step, start, page)
            self._keep(self.sums, out)
            self.tiles.store(total, self.totals, (self.all_rows,))
        self._finish(head, first, high)

    def _groups(self, body: Callable[[SSAValue], None]) -> None:
        """Run `body` on the first row of each group."""
        emit = self.emit

        def one(at: SSAValue) -> Sequence[SSAValue]:
            body(at)
            return []

        self.tiles.loop(emit.index(0), emit.index(self.rows), emit.index(self.group), [], one)

    def _parts(self, body: Callable[[Span], None]) -> None:
        """Run `body` on each part of the result's columns."""
        emit = self.emit

        def one(at: SSAValue) -> Sequence[SSAValue]:
            body(Span(at, self.columns, inside=True))
            return []

        self.tiles.loop(emit.index(0), emit.index(self.width), emit.index(self.columns), [], one)

    def _clear_group(self, at: SSAValue, start: Sequence[SSAValue]) -> None:
        """Begin a group's maximum, sum and result in memory."""
        rows = Span(at, self.group, inside=True)
        top, total, out = start
        self.tiles.store(top, self.tops, (rows,))
        self.tiles.store(total, self.totals, (rows,))
        self._parts(lambda columns: self.tiles.store(out, self.sums, (rows, columns)))

    def _page_of_group(self, seen: Seen, at: SSAValue, first: SSAValue, high: SSAValue) -> None:
        """Bring a group's maximum, sum and result in memory up to date with a page."""
        emit, tiles = self.emit, self.tiles
        rows = Span(at, self.group, inside=True)
        token = emit.add(arith.AddiOp(first, emit.over(at, self.shared)))
        token = emit.add(arith.MinSIOp(token, emit.add(arith.SubiOp(high, emit.index(1)))))
        held = tiles.clamped_rows(token, self.tokens, high)
        position = tiles.tile_of(self.op.positions, (held,))
        keys = Span(emit.index(0), self.page, inside=True)
        scores = tiles.load(self.weights, (rows, keys))
        top, total = tiles.load(self.tops, (rows,)), tiles.load(self.totals, (rows,))
        higher, total, power, decay = self._update(scores, seen, position, top, total)
        tiles.store(higher, self.tops, (rows,))
        tiles.store(total, self.totals, (rows,))
        tiles.store(power, self.weights, (rows, keys))

        def part(columns: Span) -> None:
            out = self._scaled(tiles.load(self.sums, (rows, columns)), decay)
            tiles.store(self._values(seen, rows, columns, out), self.sums, (rows, columns))

        self._parts(part)

    def _take_queries(self, head: SSAValue, first: SSAValue, high: SSAValue) -> None:
        """Put the scaled queries of the tokens and heads where scores take them, row by row."""
        emit = self.emit
        last = emit.add(arith.SubiOp(high, emit.index(1)))
        whole = Span(emit.index(0), self.width, inside=True)
        scale = emit.full(self.op.scale.value.data, f32, (1, self.width))

        def one(r: SSAValue) -> Sequence[SSAValue]:
            token = emit.add(arith.AddiOp(first, emit.over(r, self.shared)))
            token = emit.add(arith.MinSIOp(token, last))
            own = emit.plus(emit.times(head, self.shared), emit.modulo(r, self.shared))
            where = (Span(token, 1, inside=True), Span(own, 1, inside=True), whole)
            q = emit.reshape(self.tiles.tile_of(self.op.q, where), (1, self.width))
            scaled = emit.binary(arith.MulfOp, q, scale)
            self.tiles.store(scaled, self.queries, (Span(r, 1, inside=True), whole))
            return []

        self.tiles.loop(emit.index(0), emit.index(self.rows), emit.index(1), [], one)

    def _finish(self, head: SSAValue, first: SSAValue, high: SSAValue) -> None:
        """Finish and store the tokens that exist one by one, a piece of columns at a time."""
        emit = self.emit
        size = self.shared * self.width
        piece = piece_of(self.op)
        per_head = max(1, self.width // piece)

        def columns(row: SSAValue, at: SSAValue) -> None:
            begin = emit.plus(emit.times(head, size), emit.times(at, piece))
            span = Span(begin, piece, inside=True)
            in_head = Span(emit.times(emit.modulo(at, per_head), piece), piece, inside=True)
            heads = emit.plus(emit.times(row, self.shared), emit.over(at, per_head))
            where = (Span(heads, 1, inside=True), in_head)
            if piece > self.width:
                rows = emit.times(row, self.shared)
                whole = Span(emit.index(0), self.width, inside=True)
                where = (Span(rows, self.shared, inside=True), whole)
            self.tiles.fix(self.op.y, self._output(where))
            token = Span(emit.add(arith.AddiOp(first, row)), 1, inside=True)
            self.kernel.store([token], span)

        def row(i: SSAValue) -> Sequence[SSAValue]:
            def part(at: SSAValue) -> Sequence[SSAValue]:
                columns(i, at)
                return []

            self.tiles.loop(emit.index(0), emit.index(size // piece), emit.index(1), [], part)
            return []

        left = emit.add(arith.SubiOp(high, first))
        count = emit.add(arith.MinSIOp(left, emit.index(self.block)))
        self.tiles.loop(emit.index(0), count, emit.index(1), [], row)

    def _output(self, where: tuple[Span, Span]) -> SSAValue:
        """Rows and columns of the result: what was summed over what the weights sum to."""
        emit = self.emit
        total = self.tiles.load(self.totals, where[:1])
        shape = (where[0].size, where[1].size)
        summed = self.tiles.load(self.sums, where)
        return emit.binary(arith.DivfOp, summed, emit.broadcast(total, [0], shape))

    def _seen(self, sequence: SSAValue, head: SSAValue, j: SSAValue, length: SSAValue) -> Seen:
        """Return where page `j` of a sequence lies; of `length` keys it holds the next ones."""
        emit = self.emit
        number = self._number(self.op.table, sequence, j)
        number = self._clamped(number, extents(self.pages.storage)[0])
        begin = emit.times(j, self.page)
        left = emit.add(arith.MinSIOp(emit.add(arith.SubiOp(length, begin)), emit.index(self.page)))
        return Seen(number, head, begin, left)

    def _update(
        self, scores: SSAValue, seen: Seen, position: SSAValue, top: SSAValue, total: SSAValue
    ) -> tuple[SSAValue, SSAValue, SSAValue, SSAValue]:
        """Return rows' new maximum and sum, their keys' weights, and how the old sum decays.

        Scores are `[rows, page]`, positions those of the rows' tokens.
        """
        emit, shape = self.emit, tile.shape_of(scores.type)
        scores = self._masked(scores, seen, position)
        higher = emit.binary(arith.MaximumfOp, top, emit.reduce(scores, "max", [1]))
        shifted = emit.binary(arith.SubfOp, scores, emit.broadcast(higher, [0], shape))
        power = emit.add(math.ExpOp(shifted))
        decay = emit.add(math.ExpOp(emit.binary(arith.SubfOp, top, higher)))
        return higher, emit.fma(total, decay, emit.reduce(power, "add", [1])), power, decay

    def _scaled(self, out: SSAValue, decay: SSAValue) -> SSAValue:
        emit = self.emit
        by = emit.broadcast(decay, [0], tile.shape_of(out.type))
        return emit.binary(arith.MulfOp, out, by)

    def _scores(self, seen: Seen) -> SSAValue:
        """Products of scaled queries with a page's keys: `[rows, page]`."""
        emit, shape = self.emit, (self.rows, self.page)
        grain = self.pages.tile.value.data
        start = emit.full(0.0, f32, (self.rows, self.page // grain, grain) if grain else shape)

        def some(d: SSAValue, acc: SSAValue) -> Sequence[SSAValue]:
            columns = Span(d, 1, inside=True)
            q = self.tiles.load(self.queries, (self.all_rows, columns))
            keys = self._keys(seen.number, seen.head, columns)
            return [emit.add(tile.DotOp(q, keys, acc, [(1, 1)]))]

        step, width = emit.index(1), emit.index(self.width)
        (scores,) = self.tiles.loop(emit.index(0), width, step, [start], some)
        return emit.reshape(scores, shape)

    def _masked(self, scores: SSAValue, seen: Seen, position: SSAValue) -> SSAValue:
        """Return scores, -inf where a row's token may not look."""
        emit = self.emit
        rows, page = tile.shape_of(scores.type)
        tokens = rows // self.shared
        key = emit.add(tile.IotaOp(i32, page))
        first = emit.add(tile.SplatOp(emit.cast(seen.begin, i32), [page]))
        key = emit.binary(arith.AddiOp, key, first)
        own = (tokens, page)
        looks = tile.CompareOp(
            "le", emit.broadcast(key, [1], own), emit.broadcast(position, [0], own)
        )
        heads = (tokens, self.shared, page)
        mask = emit.reshape(emit.broadcast(emit.add(looks), [0, 2], heads), (rows, page))
        hidden = emit.full(float("-inf"), f32, (rows, page))
        return emit.add(tile.SelectOp(mask, scores, hidden))

    def _keys(self, number: SSAValue, head: SSAValue, columns: Span) -> SSAValue:
        """Some columns of a page's keys: `[page / n, columns, n]`, or `[page, columns]`."""
        emit, grain = self.emit, self.pages.tile.value.data
        one = [Span(number, 1, inside=True), Span(head, 1, inside=True)]
        zero, memref = emit.index(0), self.tiles.memrefs[self.op.k]
        if grain:
            count = self.page // grain
            rest = (Span(zero, count, inside=True), columns, Span(zero, grain, inside=True))
            keys = self.tiles.load(memref, (*one, *rest), shape=(count, columns.size, grain))
        else:
            index = (*one, Span(zero, self.page, inside=True), columns)
            keys = self.tiles.load(memref, index, shape=(self.page, columns.size))
        return emit.cast(keys, f32)

    def _values(self, seen: Seen, rows: Span, columns: Span, out: SSAValue) -> SSAValue:
        """Add to `out` columns of the page's values, all that were written, by their weights."""
        emit = self.emit
        memref = self.tiles.memrefs[self.op.v]

        def one(i: SSAValue, acc: SSAValue) -> Sequence[SSAValue]:
            row = Span(i, 1, inside=True)
            weight = self.tiles.load(self.weights, (rows, row))
            page = (Span(seen.number, 1, inside=True), Span(seen.head, 1, inside=True))
            value = self.tiles.load(memref, (*page, row, columns), shape=(1, columns.size))
            return [emit.add(tile.DotOp(weight, emit.cast(value, f32), acc, [(1, 0)]))]

        return self.tiles.loop(emit.index(0), seen.left, emit.index(1), [out], one)[0]

    def _keep(self, memory: SSAValue, value: SSAValue) -> None:
        """Store a matrix in memory of the program, whence a product takes it element by element."""
        width = tile.shape_of(value.type)[1]
        columns = Span(self.emit.index(0), width, inside=True)
        self.tiles.store(value, memory, (self.all_rows, columns))
