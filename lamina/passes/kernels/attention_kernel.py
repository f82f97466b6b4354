"""Build causal attention over paged keys and values, one pass with running maximum and sum.

A program takes one entry of the work list and one key-value head: `block` tokens by the query
heads that share it. Pages come in ascending order; a page's keys are scored together, then the
running maximum, sum and output are brought up to date (Milakov and Gimelshein 2018; Dao 2023).
A page that a row may not see leaves that row exactly as it was, so a row's bits do not depend on
the rows that share its program.

Where positions are summed up in parts, a part is begun anew, and what it gave is merged with the
parts before it; or each part has a program of its own, which leaves it for `merge_kernel` to do
just that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, i32
from xdsl.ir import SSAValue

from lamina.dialects import cache, nn, tile
from lamina.dialects.cache import PagesType
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents
from lamina.passes.kernels.attended_rows import AttendedRows, Entry, Sums
from lamina.passes.kernels.block_rows import BlockRows
from lamina.passes.kernels.kernel import Kernel
from lamina.passes.kernels.merge_kernel import Merging
from lamina.passes.kernels.subscripts import Span

PIECE = 32
"""Columns of the result that are finished at once: a block of 8-bit activations."""


def build_attention(group: nn.GroupOp, name: str) -> tile.KernelOp:
    """Build the kernel of a group whose anchor is `cache.attention`."""
    kernel = Kernel(group, name)
    op = kernel.only(cache.AttentionOp)
    blocked = op.span is not None and op.block.value.data > 1
    return (_Blocks if blocked else _Whole)(kernel, op).build()


def build_partial_attention(group: nn.GroupOp, name: str) -> tile.KernelOp:
    """Build the kernel of a group that is `cache.partial_attention`."""
    kernel = Kernel(group, name)
    return _Parts(kernel, kernel.only(cache.PartialAttentionOp)).build()


def piece_of(op: cache.AttentionOp) -> int:
    """Return how many columns are finished at once: part of a head if that holds whole blocks."""
    _, heads, width = extents(op.q.type)
    shared = heads.evaluate({}) // cast("PagesType", op.k.type).heads.value.data
    return PIECE if width % PIECE == 0 else shared * width.evaluate({})


class _Program:
    """The program of an entry: it finds its tokens, and attends with them if there are any."""

    def __init__(
        self,
        kernel: Kernel,
        op: cache.AttentionOp | cache.PartialAttentionOp,
        span: int,
        rows: AttendedRows,
    ) -> None:
        self.kernel, self.batch = kernel, op
        self.tiles, self.emit = kernel.tiles, kernel.emit
        self.rows = rows
        self.per_part = span // self.rows.page

    def begin(self, attend: Callable[[Entry], None]) -> tuple[Dim, Dim]:
        """Emit the program, and return the extents of work and heads."""
        emit, op, rows = self.emit, self.batch, self.rows
        entry, head = self.kernel.program(0), self.kernel.program(1)
        sequence, query_block = (rows.number(op.work, entry, k) for k in (0, 1))
        query_block = emit.add(arith.MaxSIOp(query_block, emit.index(0)))
        sequence = rows.clamped(sequence, extents(op.table.type)[0])
        low = rows.number(op.query_start, sequence)
        high = rows.number(op.query_start, emit.plus(sequence, 1))
        high = emit.add(arith.MinSIOp(high, emit.extent(extents(op.q.type)[0])))
        low = emit.add(arith.MaxSIOp(low, emit.index(0)))
        first = emit.add(arith.AddiOp(low, emit.times(query_block, rows.block)))
        some = emit.less(first, high)
        emit.when(some, lambda: attend(rows.entry(sequence, head, first, high)))
        return extents(op.work.type)[0], Dim.of(rows.heads)

    def pages(self, entry: Entry) -> SSAValue:
        """Return how many pages an entry looks at."""
        return self.emit.plus(self.emit.over(entry.last, self.rows.page), 1)

    def up_to(self, low: SSAValue, entry: Entry) -> SSAValue:
        """Return the page behind the part that begins with page `low`."""
        end = self.emit.plus(low, self.per_part)
        return self.emit.add(arith.MinSIOp(end, self.pages(entry)))


class _Whole(_Program):
    """Attention in one program, whose last act is what follows in its group."""

    def __init__(self, kernel: Kernel, op: cache.AttentionOp) -> None:
        self.op = op
        span = 0 if op.span is None else op.span.value.data
        super().__init__(kernel, op, span, self._rows(kernel, op))
        self.sums = self._kept(span)

    def _rows(self, kernel: Kernel, op: cache.AttentionOp) -> AttendedRows:
        return AttendedRows(kernel, op, op.block.value.data)

    def _kept(self, span: int) -> Sums:
        """Return memory for what all parts of rows give."""
        return self.rows.room() if span else self.rows.sums

    def build(self) -> tile.KernelOp:
        """Emit the program and close the kernel."""
        return self.kernel.finish(self.begin(self._attend))

    def _attend(self, entry: Entry) -> None:
        """Look at all pages, at once or a part after another."""
        self.rows.ask(entry)
        self.rows.clear(self.sums)
        pages = self.pages(entry)
        if self.per_part:
            self.tiles.each(pages, lambda low: self._part(entry, low), self.per_part)
        else:
            self.rows.look(entry, self.emit.index(0), pages)
        self._finish(entry)

    def _part(self, entry: Entry, low: SSAValue) -> None:
        """Look at the pages of a part, and merge what they gave with the parts before."""
        rows = self.rows
        rows.clear(rows.sums)
        rows.look(entry, low, self.up_to(low, entry))
        count = self.emit.times(entry.count, rows.shared)
        self.tiles.each(count, self._merge)

    def _merge(self, row: SSAValue) -> None:
        emit, tiles, kept, part = self.emit, self.tiles, self.sums, self.rows.sums
        one = Span(row, 1, inside=True)
        merging = Merging(
            emit, *(tiles.load(top, (one,), shape=(1,)) for top in (kept.tops, part.tops))
        )
        totals = (tiles.load(each.totals, (one,)) for each in (kept, part))
        tiles.store(merging.top, kept.tops, (one,))
        tiles.store(merging.sum(*totals), kept.totals, (one,))

        def columns(first: SSAValue) -> None:
            where = one, Span(first, self.rows.columns, inside=True)
            values = (tiles.load(each.values, where) for each in (kept, part))
            tiles.store(merging.sum(*values), kept.values, where)

        tiles.each(self.rows.width, columns, self.rows.columns)

    def _finish(self, entry: Entry) -> None:
        """Finish and store the tokens that exist one by one, a piece of columns at a time."""
        emit, rows = self.emit, self.rows
        size = rows.shared * rows.width
        piece = piece_of(self.op)
        per_head = max(1, rows.width // piece)

        def columns(row: SSAValue, at: SSAValue) -> None:
            begin = emit.plus(emit.times(entry.head, size), emit.times(at, piece))
            span = Span(begin, piece, inside=True)
            in_head = Span(emit.times(emit.modulo(at, per_head), piece), piece, inside=True)
            heads = emit.plus(emit.times(row, rows.shared), emit.over(at, per_head))
            where = (Span(heads, 1, inside=True), in_head)
            if piece > rows.width:
                held = Span(emit.times(row, rows.shared), rows.shared, inside=True)
                where = (held, Span(emit.index(0), rows.width, inside=True))
            self.tiles.fix(self.op.y, self._output(where))
            token = Span(emit.add(arith.AddiOp(entry.first, row)), 1, inside=True)
            self.kernel.store([token], span)

        def row(i: SSAValue) -> None:
            self.tiles.each(size // piece, lambda at: columns(i, at))

        self.tiles.each(entry.count, row)

    def _output(self, where: tuple[Span, Span]) -> SSAValue:
        """Rows and columns of the result: what was summed over what the weights sum to."""
        emit = self.emit
        total = self.tiles.load(self.sums.totals, where[:1])
        shape = (where[0].size, where[1].size)
        summed = self.tiles.load(self.sums.values, where)
        return emit.binary(arith.DivfOp, summed, emit.broadcast(total, [0], shape))


class _Blocks(_Whole):
    """Attention of several tokens in one program, which reads each page once for all of them."""

    def _rows(self, kernel: Kernel, op: cache.AttentionOp) -> BlockRows:
        self.blocks = BlockRows(kernel, op, op.block.value.data)
        return self.blocks

    def _kept(self, span: int) -> Sums:
        return self.blocks.kept

    def _attend(self, entry: Entry) -> None:
        """Look at a part of the pages after another; what they give stays in registers."""
        rows = self.blocks
        rows.ask(entry)
        rows.clear(rows.kept)

        def part(low: SSAValue, values: SSAValue) -> Sequence[SSAValue]:
            return [rows.add_part(entry, low, self.up_to(low, entry), values)]

        turns = self.emit.index(0), self.pages(entry), self.emit.index(self.per_part)
        rows.finish(*self.tiles.loop(*turns, [rows.no_values()], part))
        self._finish(entry)


class _Parts(_Program):
    """A part of the positions of a token in each program."""

    def __init__(self, kernel: Kernel, op: cache.PartialAttentionOp) -> None:
        super().__init__(kernel, op, op.span.value.data, AttendedRows(kernel, op, 1))
        self.op = op

    def build(self) -> tile.KernelOp:
        """Emit the program and close the kernel."""
        part = self.kernel.program(2)
        self.part, self.low = part, self.emit.times(part, self.per_part)
        one = self.op.block.value.data == 1
        begun = self.begin(self._attend) if one else self._begin_token()
        return self.kernel.finish([*begun, extents(self.op.y.type)[2]])

    def _begin_token(self) -> tuple[Dim, Dim]:
        """Emit the program of a token, where entries of work have several: return its extents."""
        emit, op, rows = self.emit, self.batch, self.rows
        token, head = self.kernel.program(0), self.kernel.program(1)
        tokens = extents(op.q.type)[0]
        sequence = rows.clamped(self._sequence(token), extents(op.table.type)[0])
        high = rows.number(op.query_start, emit.plus(sequence, 1))
        high = emit.add(arith.MinSIOp(high, emit.extent(tokens)))
        some = emit.less(token, high)
        emit.when(some, lambda: self._attend(rows.entry(sequence, head, token, high)))
        return tokens, Dim.of(rows.heads)

    def _sequence(self, token: SSAValue) -> SSAValue:
        """Return which sequence a token belongs to: the last one that begins before or at it."""
        emit, size = self.emit, self.op.rows.value.data
        count = emit.extent(extents(self.batch.table.type)[0])
        starts, zero = self.tiles.memrefs[self.batch.query_start], emit.full(0, i32, [size])

        def some(at: SSAValue, found: SSAValue) -> Sequence[SSAValue]:
            begun = self.tiles.load(starts, (Span(at, size, limit=count),))
            held = emit.binary(
                arith.AddiOp, emit.add(tile.IotaOp(i32, size)), splat(emit.cast(at, i32))
            )
            known = emit.add(tile.CompareOp("lt", held, splat(emit.cast(count, i32))))
            before = emit.add(tile.CompareOp("le", begun, splat(emit.cast(token, i32))))
            both = emit.binary(arith.AndIOp, known, before)
            ones = emit.add(tile.SelectOp(both, emit.full(1, i32, [size]), zero))
            more = emit.cast(emit.reduce(ones, "add", [0]), IndexType())
            return [emit.add(arith.AddiOp(found, more))]

        def splat(x: SSAValue) -> SSAValue:
            return emit.add(tile.SplatOp(x, [size]))

        turns = emit.index(0), count, emit.index(size)
        (found,) = self.tiles.loop(*turns, [emit.index(0)], some)
        return emit.add(arith.SubiOp(found, emit.index(1)))

    def _attend(self, entry: Entry) -> None:
        """Look at the pages of the program's part, if any token sees one of them."""
        self.emit.when(self.emit.less(self.low, self.pages(entry)), lambda: self._look(entry))

    def _look(self, entry: Entry) -> None:
        rows = self.rows
        rows.ask(entry)
        rows.clear(rows.sums)
        rows.look(entry, self.low, self.up_to(self.low, entry))
        count = self.emit.times(entry.count, rows.shared)
        self.tiles.each(count, lambda row: self._keep(entry, row))

    def _keep(self, entry: Entry, row: SSAValue) -> None:
        """Store a row's values, maximum and sum."""
        emit, rows, tiles = self.emit, self.rows, self.tiles
        token = emit.add(arith.AddiOp(entry.first, emit.over(row, rows.shared)))
        head = emit.plus(emit.times(entry.head, rows.shared), emit.modulo(row, rows.shared))
        lead = (*(Span(at, 1, inside=True) for at in (token, head, self.part)),)
        one, y = Span(row, 1, inside=True), self.kernel.result(0)

        def columns(first: SSAValue) -> None:
            span = Span(first, rows.columns, inside=True)
            tiles.store(tiles.load(rows.sums.values, (one, span)), y, (*lead, span))

        tiles.each(rows.width, columns, rows.columns)
        for beside, number in enumerate((rows.sums.tops, rows.sums.totals)):
            span = Span(emit.index(rows.width + beside), 1, inside=True)
            tiles.store(tiles.load(number, (one,)), y, (*lead, span))
