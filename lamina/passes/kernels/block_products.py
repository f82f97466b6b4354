"""Products of many rows with packed weights, a block of 32 columns of K after another.

Threads bring a block's weights, dequantised, and the rows' columns into memory of the program,
from where each reads what its sums need; integers they read by themselves. What a block needs is
loaded while the one before is multiplied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, UnitAttr, f32, i8, i32
from xdsl.ir import SSAValue

from lamina.dialects import nn, quant, tile
from lamina.passes.choose_layouts import DIRECT
from lamina.passes.kernels.subscripts import Span, Subscript
from lamina.passes.kernels.thread_tiles import RUN, block_of_weights, laid, shared_sums
from lamina.passes.kernels.tiles import Tiles
from lamina.passes.kernels.weights import centred, offset_of, unpacked

BLOCK, ROWS = quant.BLOCK, quant.ROWS

GAP = RUN
"""Columns between rows of the left operand in memory: neighbouring rows are in other banks."""


@dataclass(frozen=True)
class Place:
    """The tile of a product: its rows, its panels, and the threads that share it."""

    rows: Subscript
    panels: Span
    threads: int

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.rows.size, self.panels.size * ROWS


class Blocks(Protocol):
    """Products block by block."""

    def loads(self, block: SSAValue) -> list[SSAValue]:
        """Load what a block needs."""
        ...

    def keep(self, loaded: Sequence[SSAValue]) -> None:
        """Bring a block into memory of the program, where it is read from there."""
        ...

    def add(self, loaded: Sequence[SSAValue], sums: Sequence[SSAValue]) -> list[SSAValue]:
        """Add a block to each product's sums `[m, n]`."""
        ...


class Weight:
    """The parts of a packed weight in a block, quants first, and what they are as numbers."""

    def __init__(self, tiles: Tiles, op: quant.LinearOp | quant.DequantizeOp) -> None:
        self.tiles, self.op, self.emit = tiles, op, tiles.emit
        self.halves = BLOCK // op.group

    def loads(self, panels: Span, blocks: Span) -> list[SSAValue]:
        """Load quants `[J, B, bits, 16, 4]`, scales and offsets `[J, B * halves, 16]`."""
        emit, zero = self.emit, self.emit.index(0)
        first = emit.times(blocks.start, self.halves)
        groups = Span(first, blocks.size * self.halves, blocks.inside)
        lanes = Span(zero, ROWS, inside=True)
        inner = (Span(zero, self.op.bits, inside=True), lanes, Span(zero, 4, inside=True))
        memrefs = self.tiles.memrefs
        quants = self.tiles.load(memrefs[self.op.w[0]], (panels, blocks, *inner))
        others = [self.tiles.load(memrefs[w], (panels, groups, lanes)) for w in self.op.w[1:]]
        return [quants, *others]

    def columns(self, quants: SSAValue) -> SSAValue:
        """Return quants `[…, bits, 16, 4]` as `[…, 16, 32]`: each row's columns side by side."""
        emit = self.emit
        found = unpacked(self.tiles, quants, self.op.bits)
        *lead, groups, rows, four = tile.shape_of(found.type)
        last = len(lead)
        turned = emit.add(tile.TransposeOp(found, [*range(last), last + 1, last, last + 2]))
        return emit.reshape(turned, (*lead, rows, groups * four))

    def numbers(self, parts: Sequence[SSAValue]) -> SSAValue:
        """Return a block as numbers, f32 `[J, 32, 16]`."""
        emit, (quants, *others) = self.emit, parts
        found = centred(self.tiles, self.op, unpacked(self.tiles, quants, self.op.bits))
        panels = tile.shape_of(quants.type)[0]
        turned = emit.add(tile.TransposeOp(found, [0, 1, 2, 4, 3]))
        shape = (panels, self.halves, self.op.group, ROWS)
        columns = emit.reshape(turned, shape)
        wide = [emit.broadcast(emit.cast(x, f32), [0, 1, 3], shape) for x in others]
        if len(wide) == 1:
            found = emit.binary(arith.MulfOp, columns, wide[0])
        else:
            found = emit.fma(columns, wide[0], wide[1])
        return emit.reshape(found, (panels, BLOCK, ROWS))


class Panels:
    """The columns of float weights in a block."""

    def __init__(self, tiles: Tiles, value: SSAValue) -> None:
        self.tiles, self.value = tiles, value

    def loads(self, panels: Span, blocks: Span) -> list[SSAValue]:
        """Load one block of columns of K, as they are stored: `[J, 32, 16]`."""
        emit = self.tiles.emit
        lanes = Span(emit.index(0), ROWS, inside=True)
        columns = Span(emit.times(blocks.start, BLOCK), BLOCK, inside=True)
        at = (panels, columns, lanes)
        return [self.tiles.load(self.tiles.memrefs[self.stored], at)]

    @property
    def stored(self) -> SSAValue:
        """The weight as it lies in memory, maybe of a narrower type."""
        owner = self.value.owner
        return owner.x if isinstance(owner, nn.CastOp) else self.value

    def numbers(self, parts: Sequence[SSAValue]) -> SSAValue:
        """Return a block as f32."""
        return self.tiles.emit.cast(parts[0], f32)


def weight_of(tiles: Tiles, op: nn.DotGeneralOp) -> Weight | Panels:
    """Return the weight of a product of numbers."""
    owner = op.b.owner
    return Weight(tiles, owner) if isinstance(owner, quant.DequantizeOp) else Panels(tiles, op.b)


class FloatBlocks:
    """Products of numbers: rows and weights come through memory of the program."""

    def __init__(self, tiles: Tiles, ops: Sequence[nn.DotGeneralOp], place: Place) -> None:
        self.tiles, self.emit, self.place = tiles, tiles.emit, place
        self.left = ops[0].a
        self.weights = [weight_of(tiles, op) for op in ops]
        rows, panels = place.rows.size, place.panels.size
        self.rows_memory = self.emit.scratch(f32, [rows, BLOCK + GAP])
        # A row more, so that neighbouring panels are in other banks.
        self.memories = [self.emit.scratch(f32, [panels, BLOCK + 1, ROWS]) for _ in ops]

    def loads(self, block: SSAValue) -> list[SSAValue]:
        """Load rows `[m, 32]`, and the parts of each weight."""
        emit, blocks = self.emit, Span(block, 1, inside=True)
        columns = Span(emit.times(block, BLOCK), BLOCK, inside=True)
        rows = emit.cast(self.tiles.tile_of(self.left, (self.place.rows, columns)), f32)
        parts = [each.loads(self.place.panels, blocks) for each in self.weights]
        return [rows, *(part for each in parts for part in each)]

    def keep(self, loaded: Sequence[SSAValue]) -> None:
        """Store rows and numbers."""
        rows, *parts = loaded
        self.tiles.store(rows, self.rows_memory, self._rows(self.emit.index(0), BLOCK))
        at, panels = 0, self.place.panels.size
        for weight, memory in zip(self.weights, self.memories, strict=True):
            count = len(weight.op.w) if isinstance(weight, Weight) else 1
            numbers = weight.numbers(parts[at : at + count])
            at += count
            if isinstance(weight, Weight):
                laid(numbers, block_of_weights(panels, weight.op.bits, self.place.threads))
            self.tiles.store(numbers, memory, self._columns(self.emit.index(0), BLOCK))

    def add(self, loaded: Sequence[SSAValue], sums: Sequence[SSAValue]) -> list[SSAValue]:
        """Add four columns of K after another."""
        emit, shape = self.emit, (self.place.rows.size, self.place.panels.size, ROWS)
        layout = shared_sums(*shape[:2], self.place.threads)

        def some(k: SSAValue, *carried: SSAValue) -> Sequence[SSAValue]:
            a = self.tiles.load(self.rows_memory, self._rows(k, RUN))
            found: list[SSAValue] = []
            for memory, total in zip(self.memories, carried, strict=True):
                b = self.tiles.load(memory, self._columns(k, RUN))
                found.append(laid(emit.add(tile.DotOp(a, b, total, [(1, 1)])), layout))
            return found

        bounds = (emit.index(0), emit.index(BLOCK), emit.index(RUN))
        given = [emit.reshape(each, shape) for each in sums]
        found = self.tiles.loop(*bounds, given, some)
        return [emit.reshape(each, self.place.shape) for each in found]

    def _rows(self, k: SSAValue, size: int) -> tuple[Span, Span]:
        rows = Span(self.emit.index(0), self.place.rows.size, inside=True)
        return rows, Span(k, size, inside=True)

    def _columns(self, k: SSAValue, size: int) -> tuple[Span, Span, Span]:
        zero = self.emit.index(0)
        panels = Span(zero, self.place.panels.size, inside=True)
        return panels, Span(k, size, inside=True), Span(zero, ROWS, inside=True)


class IntegerBlocks:
    """Products of quants: exact in a group of columns, which then have their scales."""

    def __init__(self, tiles: Tiles, ops: Sequence[quant.LinearOp], place: Place) -> None:
        self.tiles, self.emit, self.place = tiles, tiles.emit, place
        self.ops = ops
        self.weights = [Weight(tiles, op) for op in ops]
        self.terms = ops[0].terms

    def loads(self, block: SSAValue) -> list[SSAValue]:
        """Load each term's quants `[m, 32]` and scales `[m, 1]`, sums, and the weights' parts."""
        emit, op, rows = self.emit, self.ops[0], self.place.rows
        found: list[SSAValue] = []
        for term in range(self.terms):
            number = emit.plus(emit.times(block, self.terms), term)
            at = Span(emit.times(number, BLOCK), BLOCK, inside=True)
            found.append(self.tiles.tile_of(op.q, (rows, at)))
            found.append(self.tiles.tile_of(op.d, (rows, Span(number, 1, inside=True))))
        blocks = Span(block, 1, inside=True)
        found.append(self.tiles.tile_of(op.s, (rows, blocks)))
        for each in self.weights:
            found += each.loads(self.place.panels, blocks)
        return found

    def keep(self, loaded: Sequence[SSAValue]) -> None:
        """Keep nothing: threads read what they multiply."""

    def add(self, loaded: Sequence[SSAValue], sums: Sequence[SSAValue]) -> list[SSAValue]:
        """Add a block's groups to the sums of each product."""
        count = 2 * self.terms
        lefts = list(zip(loaded[:count:2], loaded[1:count:2], strict=True))
        total, parts = loaded[count], list(loaded[count + 1 :])
        found: list[SSAValue] = []
        for weight, acc in zip(self.weights, sums, strict=True):
            own = [parts.pop(0) for _ in weight.op.w]
            found.append(self._block(weight, own, lefts, total, acc))
        return found

    def _block(
        self,
        weight: Weight,
        parts: Sequence[SSAValue],
        lefts: Sequence[tuple[SSAValue, SSAValue]],
        total: SSAValue,
        acc: SSAValue,
    ) -> SSAValue:
        emit, (rows, columns) = self.emit, self.place.shape
        quants = emit.reshape(weight.columns(parts[0]), (columns, BLOCK))
        for half in range(weight.halves):
            scales = [emit.cast(self._half(weight, each, half), f32) for each in parts[1:]]
            scale, stored = scales[0], scales[1:]
            wide = emit.broadcast(scale, [1], (rows, columns))
            own: SSAValue | None = None
            offset = offset_of(self.tiles, weight.op, scale, lambda _, x=stored: x[0])
            for q, d in lefts:
                some = self._part(q, weight, half)
                product = self._exact(some, quants)
                per_row = emit.broadcast(emit.reshape(d, [rows]), [0], (rows, columns))
                by = emit.binary(arith.MulfOp, wide, per_row)
                acc = emit.fma(emit.cast(product, f32), by, acc)
                if weight.halves > 1 and offset is not None:
                    ones = emit.full(1, i8, (columns, BLOCK))
                    count = emit.cast(self._exact(some, ones), f32)
                    own = (
                        emit.binary(arith.MulfOp, count, per_row)
                        if own is None
                        else emit.fma(count, per_row, own)
                    )
            if offset is not None:
                if own is None:
                    own = emit.broadcast(emit.reshape(total, [rows]), [0], (rows, columns))
                acc = emit.fma(emit.broadcast(offset, [1], (rows, columns)), own, acc)
        return acc

    def _exact(self, q: SSAValue, quants: SSAValue) -> SSAValue:
        start = self.emit.full(0, i32, self.place.shape)
        product = tile.DotOp(q, quants, start, [(1, 1)], unsigned=(0, 1))
        product.attributes[DIRECT] = UnitAttr()
        return self.emit.add(product)

    def _half(self, weight: Weight, scales: SSAValue, half: int) -> SSAValue:
        """Return one group's scales, `[n]`."""
        emit, panels = self.emit, self.place.panels.size
        if weight.halves > 1:
            scales = emit.add(tile.SliceOp(scales, [0, half, 0], [panels, 1, ROWS]))
        return emit.reshape(scales, [panels * ROWS])

    def _part(self, q: SSAValue, weight: Weight, half: int) -> SSAValue:
        """Return quants of rows, 0 outside of a half of the block if the scales are of halves."""
        if weight.halves == 1:
            return q
        emit, shape = self.emit, tile.shape_of(q.type)
        counts = emit.add(tile.IotaOp(IndexType(), BLOCK))
        middle = emit.full(weight.op.group, IndexType(), [BLOCK])
        inside = emit.add(tile.CompareOp("ge" if half else "lt", counts, middle))
        wide = emit.broadcast(inside, [1], shape)
        return emit.add(tile.SelectOp(wide, q, emit.full(0, i8, shape)))
