"""Products of 8-bit rows with packed weights: exact in a group of columns, f32 across groups.

A group is the columns that share a scale of the weight, a block of 32 or half of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32, i8, i32
from xdsl.ir import SSAValue

from lamina.dialects import quant, tile
from lamina.dialects.tensors import extents
from lamina.passes.kernels.emit import Emit
from lamina.passes.kernels.subscripts import Span, Subscript
from lamina.passes.kernels.tiles import Tiles
from lamina.passes.kernels.weights import GROUPS, offset_of, quant_tile, scale_tile

BLOCK, ROWS = quant.BLOCK, quant.ROWS
AT_ONCE = 4 * GROUPS
"""Columns that one dot multiplies."""


@dataclass(frozen=True)
class IntegerProduct:
    """A product for some rows of the left operand and the tiles of columns `at`.

    The weights of the next tiles are asked for `ahead`.
    """

    tiles: Tiles
    op: quant.LinearOp
    rows: Subscript
    at: Span
    ahead: bool

    def build(self) -> SSAValue:
        """Emit the chain over groups in ascending order: `[m, j, 16]` f32."""
        emit = self.emit
        groups = emit.extent(extents(self.op.w[1].type)[1])
        start = emit.full(0.0, f32, self.shape)
        return self.tiles.loop(emit.index(0), groups, emit.index(1), [start], self._group)[0]

    @property
    def emit(self) -> Emit:
        """The writer of the kernel."""
        return self.tiles.emit

    @property
    def shape(self) -> tuple[int, int, int]:
        """Rows, tiles of columns, columns of a tile."""
        return self.rows.size, self.at.size, ROWS

    @property
    def halves(self) -> int:
        """Groups in a block of 32."""
        return BLOCK // self.op.group

    def _group(self, g: SSAValue, acc: SSAValue) -> Sequence[SSAValue]:
        """Add one group: the product by `scale * d`, then the offset by `d * sum(q)`."""
        emit, op, shape = self.emit, self.op, self.shape
        where = (self.at, Span(g, 1, inside=True))
        block = Span(emit.over(g, self.halves), 1, inside=True)
        products, totals = self._sums(g)
        load = partial(scale_tile, self.tiles, at=where, ahead=self.ahead)
        scale = load(op.w[1])
        offset = offset_of(self.tiles, op, scale, load)
        wide = emit.broadcast(scale, [1, 2], shape)
        for term, product in enumerate(products):
            by = emit.binary(arith.MulfOp, wide, self._per_row(self._scales(block, term), shape))
            acc = emit.fma(emit.cast(product, f32), by, acc)
        if offset is None:
            return [acc]
        s = self._own_sum(totals, block) if totals else self._block_sum(block)
        return [emit.fma(emit.broadcast(offset, [1, 2], shape), s, acc)]

    def _sums(self, g: SSAValue) -> tuple[Sequence[SSAValue], Sequence[SSAValue]]:
        """Return each term's products of quants, `[m, j, 16]` i32, and sums of half a block.

        Those are `[m, 1, 16]`, all lanes equal: products with a tile of ones.
        """
        emit, op = self.emit, self.op
        block = Span(emit.over(g, self.halves), 1, inside=True)
        ones = [emit.full(1, i8, (1, GROUPS, ROWS, 4))] if self.halves > 1 else []
        sizes = [self.at.size] * op.terms + [1] * op.terms * len(ones)
        start = [emit.full(0, i32, (self.rows.size, size, ROWS)) for size in sizes]

        def some(part: SSAValue, *totals: SSAValue) -> Sequence[SSAValue]:
            place = self._place(g, part)
            weights = quant_tile(self.tiles, op, (self.at, block), place, ahead=self.ahead)
            lefts = [self._quants(block, term, place) for term in range(op.terms)]
            pairs = [(q, w) for w in (weights, *ones) for q in lefts]
            return [
                emit.add(tile.DotOp(q, w, total, [(1, 1), (2, 3)], unsigned=(0, 1)))
                for (q, w), total in zip(pairs, totals, strict=True)
            ]

        parts = emit.index(op.group // AT_ONCE)
        found = self.tiles.loop(emit.index(0), parts, emit.index(1), start, some)
        return found[: op.terms], found[op.terms :]

    def _quants(self, block: Span, term: int, place: SSAValue) -> SSAValue:
        """Return columns of the left operand, a part of a block: `[m, GROUPS, 4]` i8."""
        emit = self.emit
        before = emit.times(self._of_term(block, term), BLOCK)
        first = emit.binary(arith.AddiOp, before, emit.times(place, AT_ONCE))
        q = self.tiles.tile_of(self.op.q, (self.rows, Span(first, AT_ONCE, inside=True)))
        return emit.reshape(q, (self.rows.size, GROUPS, 4))

    def _scales(self, block: Span, term: int) -> SSAValue:
        at = Span(self._of_term(block, term), 1, inside=True)
        return self.tiles.tile_of(self.op.d, (self.rows, at))

    def _of_term(self, block: Span, term: int) -> SSAValue:
        """Return the number of a block's term among all terms."""
        emit = self.emit
        first = emit.times(block.start, self.op.terms)
        return emit.binary(arith.AddiOp, first, emit.index(term)) if term else first

    def _place(self, g: SSAValue, part: SSAValue) -> SSAValue:
        """Return which part of its block a part of a group is."""
        emit = self.emit
        if self.halves == 1:
            return part
        before = emit.times(emit.modulo(g, self.halves), self.op.group // AT_ONCE)
        return emit.binary(arith.AddiOp, before, part)

    def _block_sum(self, block: Span) -> SSAValue:
        return self._per_row(self.tiles.tile_of(self.op.s, (self.rows, block)), self.shape)

    def _own_sum(self, totals: Sequence[SSAValue], block: Span) -> SSAValue:
        """Return the sum over terms of `d * sum(q)` of half a block."""
        emit, lanes = self.emit, (self.rows.size, ROWS)
        s: SSAValue | None = None
        for term, total in enumerate(totals):
            d = self._per_row(self._scales(block, term), lanes)
            sums = emit.cast(emit.reshape(total, lanes), f32)
            s = emit.binary(arith.MulfOp, sums, d) if s is None else emit.fma(sums, d, s)
        assert s is not None
        return emit.broadcast(s, [0, 2], self.shape)

    def _per_row(self, x: SSAValue, shape: tuple[int, ...]) -> SSAValue:
        return self.emit.broadcast(self.emit.reshape(x, [self.rows.size]), [0], shape)
