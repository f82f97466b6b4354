"""Products of few rows with packed weights: threads have blocks of columns of K apart.

In a round, threads have neighbouring blocks, each of which belongs to a partial sum of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, f32, i8, i32
from xdsl.ir import SSAValue

from lamina.dialects import nn, quant, tile
from lamina.dialects.layouts import Layout
from lamina.passes.kernels.block_products import GAP, Panels, Place, Weight, weight_of
from lamina.passes.kernels.subscripts import Span
from lamina.passes.kernels.thread_tiles import laid, split_sums
from lamina.passes.kernels.tiles import Tiles
from lamina.passes.kernels.weights import GROUPS, centred, offset_of

BLOCK, ROWS = quant.BLOCK, quant.ROWS

STEP = 4 * GROUPS
"""Columns of K that are multiplied at once: the weights that a thread loads at once."""


IN_REGISTERS = 1
"""Rows of which threads keep their blocks; of more they read them out of memory of the program."""


@dataclass(frozen=True)
class Round:
    """Blocks of a round, of which only those from `first` on count; None for all of them."""

    blocks: Span
    first: SSAValue | None = None


class Rounds(Protocol):
    """Products round by round."""

    def add(self, some: Round, sums: Sequence[SSAValue]) -> list[SSAValue]:
        """Add a round to the partial sums of each product, `[parts, m, J, 16]`."""
        ...


class _Split:
    """What rounds of numbers and of quants have in common."""

    def __init__(self, tiles: Tiles, place: Place, parts: int) -> None:
        self.tiles, self.emit, self.place, self.parts = tiles, tiles.emit, place, parts
        self.shape = (parts, place.rows.size, place.panels.size, ROWS)
        self.layout = split_sums(*self.shape[:3], place.threads)

    def columns(self, value: SSAValue, some: Round, each: int) -> SSAValue:
        """Return the rows' columns of a round: `[m, parts, each]`, `each` for a block."""
        blocks, rows = some.blocks, self.place.rows
        at = Span(self.emit.times(blocks.start, each), self.parts * each, inside=True)
        found = self.tiles.tile_of(value, (rows, at))
        return self.counting(self.emit.reshape(found, (rows.size, self.parts, each)), some, 1)

    def counting(self, x: SSAValue, some: Round, dim: int) -> SSAValue:
        """Return a tile with zeros where blocks, along a dimension, do not count."""
        if some.first is None:
            return x
        emit, shape = self.emit, tile.shape_of(x.type)
        counts = emit.add(tile.IotaOp(IndexType(), self.parts))
        first = emit.add(tile.SplatOp(some.first, [self.parts]))
        inside = emit.add(tile.CompareOp("ge", counts, first))
        none = emit.full(0, tile.element_of(x.type), shape)
        return emit.add(tile.SelectOp(emit.broadcast(inside, [dim], shape), x, none))

    def cut(self, x: SSAValue, dim: int, start: int, size: int) -> SSAValue:
        """Return a part of a tile along a dimension."""
        shape = list(tile.shape_of(x.type))
        if shape[dim] == size:
            return x
        at = [0] * len(shape)
        at[dim], shape[dim] = start, size
        return self.emit.add(tile.SliceOp(x, at, shape))

    def product(self, x: SSAValue, w: SSAValue, acc: SSAValue) -> SSAValue:
        """Return `[parts, m, J, 16]` sums with the products of `[m, parts, k]` and
        `[J, parts, k, 16]` added.
        """
        unsigned = (0, 1) if tile.element_of(x.type) == i8 else ()
        dot = tile.DotOp(x, w, acc, [(2, 2)], batch=[(1, 1)], unsigned=unsigned)
        return laid(self.emit.add(dot), self.layout)

    def per_column(self, x: SSAValue) -> SSAValue:
        """Return `[J, parts, 16]` in the shape of sums."""
        turned = self.emit.add(tile.TransposeOp(x, [1, 0, 2]))
        return self.emit.broadcast(turned, [0, 2, 3], self.shape)

    def per_row(self, x: SSAValue) -> SSAValue:
        """Return `[m, parts]` in the shape of sums."""
        turned = self.emit.add(tile.TransposeOp(x, [1, 0]))
        return self.emit.broadcast(turned, [0, 1], self.shape)

    def of_rows(self, columns: int) -> Layout:
        """Return where `[m, parts, columns]` of the rows lie: a thread has its block's."""
        strides = {0: columns, 1: self.parts * columns}
        layout = self.layout.mapped(self.shape, strides)
        assert layout is not None
        return layout.with_registers([(columns, 1)])

    def quants(self, weight: Weight, packed: SSAValue) -> SSAValue:
        """Return unsigned quants, `[J, parts, columns, 16]`."""
        return self.emit.add(tile.TransposeOp(weight.columns(packed), [0, 1, 3, 2]))


class FloatRounds(_Split):
    """Rounds of numbers."""

    def __init__(
        self, tiles: Tiles, ops: Sequence[nn.DotGeneralOp], place: Place, parts: int
    ) -> None:
        super().__init__(tiles, place, parts)
        self.left = ops[0].a
        self.weights = [weight_of(tiles, op) for op in ops]
        size = [place.rows.size, parts, BLOCK + GAP]
        self.memory = self.emit.scratch(f32, size) if place.rows.size > IN_REGISTERS else None

    def add(self, some: Round, sums: Sequence[SSAValue]) -> list[SSAValue]:
        """Add a round: product after product, eight columns of each block after another."""
        rows = self.emit.cast(self.columns(self.left, some, BLOCK), f32)
        if self.memory is not None:
            self.tiles.store(rows, self.memory, self._kept(0, BLOCK))
        found: list[SSAValue] = []
        for weight, before in zip(self.weights, sums, strict=True):
            total, parts = before, self._loaded(weight, some)
            for part in range(BLOCK // STEP):
                x = self._step(rows, part)
                total = self.product(x, self._weights(weight, parts, some, part), total)
            found.append(total)
        return found

    def _loaded(self, weight: Weight | Panels, some: Round) -> list[SSAValue]:
        """Return what a product's weights of a round are, as they lie in memory."""
        if isinstance(weight, Weight):
            return weight.loads(self.place.panels, some.blocks)
        # Of several products, a thread has registers for a step of each at a time.
        return [] if len(self.weights) > 1 else [self._plain(weight, some)]

    def _weights(
        self, weight: Weight | Panels, parts: Sequence[SSAValue], some: Round, part: int
    ) -> SSAValue:
        """Return the numbers of one step of each block: `[J, parts, 8, 16]`."""
        if isinstance(weight, Weight):
            return self._numbers(weight, parts, some, part)
        whole = parts[0] if parts else self._plain(weight, some)
        return self.cut(whole, 2, part * STEP, STEP)

    def _step(self, rows: SSAValue, part: int) -> SSAValue:
        """Return one step of each block of the rows, out of memory if they are there."""
        if self.memory is None:
            return self.cut(rows, 2, part * STEP, STEP)
        return self.tiles.load(self.memory, self._kept(part * STEP, STEP))

    def _kept(self, column: int, size: int) -> tuple[Span, Span, Span]:
        zero = self.emit.index(0)
        rows, parts = (Span(zero, n, inside=True) for n in (self.place.rows.size, self.parts))
        return rows, parts, Span(self.emit.index(column), size, inside=True)

    def _numbers(
        self, weight: Weight, parts: Sequence[SSAValue], some: Round, part: int
    ) -> SSAValue:
        """Return one step of each block, dequantised: `[J, parts, 8, 16]`."""
        emit, (packed, *others) = self.emit, parts
        size = GROUPS * weight.op.bits // 8
        some_quants = self.quants(weight, self.cut(packed, 2, part * size, size))
        columns = centred(self.tiles, weight.op, some_quants)
        shape = tile.shape_of(columns.type)
        half = part * STEP // weight.op.group
        wide: list[SSAValue] = []
        for each in others:
            own = self.of_half(weight, each, half)
            scale = self.counting(emit.cast(own, f32), some, 1)
            wide.append(emit.broadcast(scale, [0, 1, 3], shape))
        if len(wide) == 1:
            return emit.binary(arith.MulfOp, columns, wide[0])
        return emit.fma(columns, wide[0], wide[1])

    def of_half(self, weight: Weight, scales: SSAValue, half: int) -> SSAValue:
        """Return one group's scales of each block, `[J, parts, 16]`."""
        return _of_half(self, weight, scales, half)

    def _plain(self, weight: Panels, some: Round) -> SSAValue:
        """Return blocks of float weights, `[J, parts, 32, 16]` f32."""
        emit, panels = self.emit, self.place.panels
        lanes = Span(emit.index(0), ROWS, inside=True)
        at = Span(emit.times(some.blocks.start, BLOCK), self.parts * BLOCK, inside=True)
        whole = self.tiles.load(self.tiles.memrefs[weight.stored], (panels, at, lanes))
        apart = emit.reshape(whole, (panels.size, self.parts, BLOCK, ROWS))
        return self.counting(emit.cast(apart, f32), some, 1)


def _of_half(split: _Split, weight: Weight, scales: SSAValue, half: int) -> SSAValue:
    """Return one group's scales of each block, `[J, parts, 16]`."""
    panels = split.place.panels.size
    apart = split.emit.reshape(scales, (panels, split.parts, weight.halves, ROWS))
    return split.emit.reshape(split.cut(apart, 2, half, 1), (panels, split.parts, ROWS))


class IntegerRounds(_Split):
    """Rounds of quants: exact in a group of columns, which then have their scales."""

    def __init__(
        self, tiles: Tiles, ops: Sequence[quant.LinearOp], place: Place, parts: int
    ) -> None:
        super().__init__(tiles, place, parts)
        self.first = ops[0]
        self.weights = [Weight(tiles, op) for op in ops]

    def add(self, some: Round, sums: Sequence[SSAValue]) -> list[SSAValue]:
        """Add a round, group after group of each block."""
        emit, op, terms = self.emit, self.first, self.first.terms
        loaded = [each.loads(self.place.panels, some.blocks) for each in self.weights]
        rows = self.place.rows.size
        q = emit.reshape(self.columns(op.q, some, BLOCK * terms), (rows, self.parts, terms, BLOCK))
        d = self.columns(op.d, some, terms)
        s = emit.reshape(self.columns(op.s, some, 1), (rows, self.parts))
        lefts = [
            (
                emit.reshape(self.cut(q, 2, term, 1), (rows, self.parts, BLOCK)),
                emit.reshape(self.cut(d, 2, term, 1), (rows, self.parts)),
            )
            for term in range(terms)
        ]
        return [
            self._block(weight, parts, some, lefts, s, acc)
            for weight, parts, acc in zip(self.weights, loaded, sums, strict=True)
        ]

    def _block(
        self,
        weight: Weight,
        parts: Sequence[SSAValue],
        some: Round,
        lefts: Sequence[tuple[SSAValue, SSAValue]],
        s: SSAValue,
        acc: SSAValue,
    ) -> SSAValue:
        emit, group = self.emit, weight.op.group
        quants = self.quants(weight, parts[0])
        for half in range(weight.halves):
            scales = [
                self.counting(emit.cast(_of_half(self, weight, each, half), f32), some, 1)
                for each in parts[1:]
            ]
            stored = scales[1:]
            offset = offset_of(self.tiles, weight.op, scales[0], lambda _, x=stored: x[0])
            wide = self.per_column(scales[0])
            own: SSAValue | None = None
            for q, d in lefts:
                product = emit.full(0, i32, self.shape)
                for part in range(half * group // STEP, (half + 1) * group // STEP):
                    x = self.cut(q, 2, part * STEP, STEP)
                    w = self.cut(quants, 2, part * STEP, STEP)
                    product = self.product(x, w, product)
                by = emit.binary(arith.MulfOp, wide, self.per_row(d))
                acc = emit.fma(emit.cast(product, f32), by, acc)
                if weight.halves > 1 and offset is not None:
                    some_quants = emit.cast(self.cut(q, 2, half * group, group), i32)
                    laid(some_quants, self.of_rows(group))
                    count = emit.cast(emit.reduce(some_quants, "add", [2]), f32)
                    own = (
                        emit.binary(arith.MulfOp, count, d)
                        if own is None
                        else emit.fma(count, d, own)
                    )
            if offset is not None:
                total = self.per_row(s if own is None else own)
                acc = emit.fma(self.per_column(offset), total, acc)
        return acc
