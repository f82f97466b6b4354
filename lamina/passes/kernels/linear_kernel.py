"""Build products with packed weights: `x[T, K] · w[N, K]`, prologue and epilogue included.

A tile of the result is `m` rows by `n` columns, of which `r` are in registers at once, as `j`
tiles of 16. Programs go through the tiles of a band of `b` columns, then through the next rows of
that band, then to the next band. Every schedule does the same arithmetic for an element: columns
of K in ascending order, one chain of fused multiply-adds; for 8-bit activations a chain of groups
that share a scale, the scale's product first, then the offset's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, OpResult, SSAValue

from lamina.dialects import nn, quant, tile
from lamina.dialects.dims import Dim, product
from lamina.dialects.tensors import extents
from lamina.errors import LoweringError
from lamina.passes.kernels.following import Following, Lines
from lamina.passes.kernels.integer_product import IntegerProduct
from lamina.passes.kernels.kernel import Kernel
from lamina.passes.kernels.register_tile import RegisterTile
from lamina.passes.kernels.row_kernel import WIDEST
from lamina.passes.kernels.rows import STATISTICS, chunk_of, find_statistics, over_row
from lamina.passes.kernels.subscripts import Span, Subscript
from lamina.passes.kernels.thread_linear import ThreadLinear
from lamina.passes.kernels.weights import GROUPS, dequantized_columns, quantized_span

ROWS = quant.ROWS
Product = quant.LinearOp | nn.DotGeneralOp


@dataclass(frozen=True)
class Shape:
    """What a product multiplies: `rows` x `k` by `k` x `n` (unpadded)."""

    rows: Dim
    k: Dim
    n: Dim

    @property
    def depth(self) -> int:
        """Columns of K; KeyError if they are no number."""
        return self.k.evaluate({})

    @property
    def columns(self) -> int:
        """Columns of the result; KeyError if they are no number."""
        return self.n.evaluate({})

    @property
    def panels(self) -> Dim:
        """Tiles of 16 columns, the last one padded."""
        return self.n.ceildiv(ROWS)

    @property
    def tiles(self) -> int:
        """Tiles of 16 columns; KeyError if they are no number."""
        return self.panels.evaluate({})


def is_linear(op: object) -> bool:
    """Whether an operation is a product of rows with a packed weight of a number of columns."""
    if not _is_packed_product(op):
        return False
    return not isinstance(op, nn.DotGeneralOp) or extents(op.a.type)[1].constant is not None


def _is_packed_product(op: object) -> bool:
    if isinstance(op, quant.LinearOp):
        return op.packed
    if not isinstance(op, nn.DotGeneralOp) or len(extents(op.a.type)) != 2 or op.batch:
        return False
    if tile.pairs(op.contract) != ((1, 1),):
        return False
    return _is_dequantized(op.b) or has_panels(op.b)


def is_unpacked(op: Operation) -> bool:
    """Whether a product's weights come in blocks, and take work before they are multiplied."""
    return isinstance(op, quant.LinearOp) or _is_dequantized(op.operands[1])


def _is_dequantized(b: SSAValue) -> bool:
    return isinstance(b.owner, quant.DequantizeOp) and b.owner.packed


def has_panels(b: SSAValue) -> bool:
    """Whether `b` is `[N/16, K, 16]`, as it comes or cast to f32."""
    shape = extents(b.type)
    return len(shape) == 3 and shape[2] == ROWS


def shape_of(op: Product) -> Shape:
    """Return the extents of a product."""
    if isinstance(op, quant.LinearOp):
        return Shape(extents(op.q.type)[0], op.depth, extents(op.y.type)[1])
    rows, depth = extents(op.a.type)
    return Shape(rows, depth, product(extents(op.y.type)[1:]))


def build_linear(group: nn.GroupOp, name: str) -> tile.KernelOp:
    """Build the kernel of a group whose anchors are products of one left operand."""
    kernel = Kernel(group, name)
    products: list[Product] = [
        op for op in kernel.ops if isinstance(op, quant.LinearOp | nn.DotGeneralOp)
    ]
    shapes = {shape_of(op) for op in products}
    if len(shapes) != 1 or not all(map(_is_packed_product, products)):
        raise LoweringError("products in one group are linear and of one shape")
    (shape,) = shapes
    if group.schedule is not None and "threads" in group.schedule.values.data:
        return ThreadLinear(kernel, products, shape.depth).build(shape.rows, shape.tiles)
    return _Builder(kernel, products, shape).build()


class _Builder:
    def __init__(self, kernel: Kernel, products: list[Product], shape: Shape) -> None:
        self.kernel = kernel
        self.tiles, self.emit = kernel.tiles, kernel.emit
        self.products, self.shape = products, shape
        self.fit = fit = RegisterTile.of(kernel.group, self.products, self.shape.panels)
        self.rows, self.count, self.abreast, self.step = fit.rows, fit.count, fit.abreast, fit.step
        # Of a single panel that all rows take in turn, there is nothing ahead.
        self.ahead = self.abreast > 1 or fit.band > 1
        self.prologue = self._find_prologue()
        self.block = self.emit.index(0)
        self.kept: dict[SSAValue, SSAValue] = {}
        self.at_once = self.rows == 1 and self.abreast == self.count
        if not self.at_once:
            size = [self.rows, self.count * ROWS]
            for op in self.products:
                self.kept[op.results[0]] = self.emit.add(tile.ScratchOp(f32, size))

    def _find_prologue(self) -> list[SSAValue]:
        """The left operands that the group computes by itself, through a row operation."""
        found: dict[SSAValue, None] = {}
        for op in self.products:
            left = (op.q, op.d, op.s) if isinstance(op, quant.LinearOp) else (op.a,)
            found |= dict.fromkeys(v for v in left if isinstance(v, OpResult))
        return list(found)

    def build(self) -> tile.KernelOp:
        """Emit the loops over tiles and close the kernel."""
        rows, groups = self.shape.rows, self.shape.panels // self.count
        if self.prologue:
            self._rows_by_worker(groups.evaluate({}))
            return self.kernel.finish([Dim.symbol(tile.WORKERS)])
        emit, band = self.emit, self.fit.band
        at, self.block, number = (self.kernel.program(dim) for dim in range(3))
        group = emit.add(arith.AddiOp(emit.times(number, band), at))
        self._tile(emit.times(self.block, self.rows), group)
        blocks = rows.ceildiv(self.rows)
        return self.kernel.finish([Dim.of(band), blocks, groups // band])

    def _rows_by_worker(self, groups: int) -> None:
        """Each worker computes the left operand's rows by itself, then its share of columns."""
        emit = self.emit
        memory: dict[SSAValue, SSAValue] = {}
        for value in self.prologue:
            width = extents(value.type)[1].evaluate({})
            memory[value] = emit.add(tile.ScratchOp(nn.element(value), [self.rows, width]))
        worker = self.kernel.program(0)
        begin, end = (self._share(emit.plus(worker, n), groups) for n in (0, 1))

        def some_rows(first: SSAValue) -> Sequence[SSAValue]:
            self._fill(memory, first)
            held = dict(self.tiles.memrefs)
            self.tiles.memrefs.update(memory)

            def columns(at: SSAValue) -> Sequence[SSAValue]:
                self._tile(first, at)
                return []

            self.tiles.loop(begin, end, emit.index(1), [], columns)
            self.tiles.memrefs = held
            return []

        high, size = emit.extent(self.shape.rows), emit.index(self.rows)
        self.tiles.loop(emit.index(0), high, size, [], some_rows)

    def _share(self, worker: SSAValue, groups: int) -> SSAValue:
        """Return where a worker's share of columns begins: neighbours, read one after another."""
        emit = self.emit
        before = emit.add(arith.MuliOp(worker, emit.index(groups)))
        return emit.add(arith.DivUIOp(before, emit.symbols[tile.WORKERS]))

    def _fill(self, memory: dict[SSAValue, SSAValue], first: SSAValue) -> None:
        """Compute the rows of the left operand from `first` on into memory of the program."""
        emit = self.emit
        row_ops = [op for op in self.kernel.ops if type(op) in STATISTICS]
        chunk = chunk_of(Dim.of(self.shape.depth), WIDEST)

        def row(t: SSAValue) -> Sequence[SSAValue]:
            to = Span(t, 1, inside=True)
            at = Span(emit.add(arith.AddiOp(first, t)), 1, inside=True)
            find_statistics(self.tiles, row_ops, (at,), WIDEST)

            def part(span: Span, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
                for value, scratch in memory.items():
                    where = self._columns(value, span)
                    self.tiles.store(self.tiles.tile_of(value, (at, where)), scratch, (to, where))
                return []

            over_row(self.tiles, Dim.of(self.shape.depth), chunk, part)
            return []

        self.tiles.loop(emit.index(0), self._rows_from(first), emit.index(1), [], row)

    def _rows_from(self, first: SSAValue) -> SSAValue:
        """How many of a tile's rows exist."""
        left = self.emit.add(arith.SubiOp(self.emit.extent(self.shape.rows), first))
        return self.emit.add(arith.MinSIOp(left, self.emit.index(self.rows)))

    def _columns(self, value: SSAValue, span: Span) -> Span:
        if isinstance(value.owner, quant.QuantizeOp):
            return quantized_span(self.tiles, value.owner, value, span)
        return span

    def _tile(self, first: SSAValue, group: SSAValue) -> None:
        """Emit one tile of the result: products, then its rows' ends and stores."""
        emit = self.emit
        width = self.count * ROWS
        inside = all(n == self.shape.panels * ROWS for n in self._widths())
        columns = Span(emit.times(group, width), width, inside)
        if self.at_once:
            left = Span(emit.index(0) if self.prologue else first, 1, inside=True)
            at = Span(emit.times(group, self.count), self.count, inside=True)
            results: dict[SSAValue, SSAValue] = {
                op.results[0]: self._multiply(op, left, at) for op in self.products
            }
            self._finish(results, Span(first, 1, inside=True), columns)
            return
        rows = Span(emit.index(0), self.rows, inside=True)
        end = emit.extent(self.shape.rows)
        left = rows if self.prologue else self.tiles.clamped_rows(first, self.rows, end)
        begin = emit.times(group, self.count)

        def part(j: SSAValue) -> Sequence[SSAValue]:
            at = Span(emit.add(arith.AddiOp(begin, j)), self.abreast, inside=True)
            kept = Span(emit.times(j, ROWS), self.abreast * ROWS, inside=True)
            for op in self.products:
                product = self._multiply(op, left, at)
                product = emit.reshape(product, (self.rows, kept.size))
                self.tiles.store(product, self.kept[op.results[0]], (rows, kept))
            return []

        self.tiles.loop(emit.index(0), emit.index(self.count), emit.index(self.abreast), [], part)
        self._finish_rows(first, columns)

    def _multiply(self, op: Product, left: Subscript, at: Span) -> SSAValue:
        """One product for some rows and tiles of columns: `[m, j, 16]`."""
        if isinstance(op, quant.LinearOp):
            return IntegerProduct(self.tiles, op, left, at, self.ahead).build()
        return self._float(op, left, at)

    def _finish(self, results: dict[SSAValue, SSAValue], row: Span, columns: Span) -> None:
        for value, total in results.items():
            self.tiles.fix(value, total)
        self.kernel.store([row], columns)

    def _finish_rows(self, first: SSAValue, columns: Span) -> None:
        """Finish the rows that exist one by one, out of memory of the program."""
        emit = self.emit
        whole = Span(emit.index(0), columns.size, inside=True)

        def row(i: SSAValue) -> Sequence[SSAValue]:
            one = Span(i, 1, inside=True)
            loaded = {v: self.tiles.load(kept, (one, whole)) for v, kept in self.kept.items()}
            self._finish(loaded, Span(emit.add(arith.AddiOp(first, i)), 1, inside=True), columns)
            return []

        self.tiles.loop(emit.index(0), self._rows_from(first), emit.index(1), [], row)

    def _widths(self) -> list[Dim]:
        """The columns of the results, which padding may exceed."""
        found = [self.shape.n]
        for op in self.kernel.ops:
            if isinstance(op, nn.SliceOp):
                found.append(extents(op.y.type)[-1])
        return found

    def _float(self, op: nn.DotGeneralOp, rows: Subscript, at: Span) -> SSAValue:
        """Products of f32 rows: a chain of fused multiply-adds over K."""
        emit, depth = self.emit, self.shape.k
        quantised = isinstance(op.b.owner, quant.DequantizeOp)
        step = 4 * GROUPS if quantised else min(self.step, depth.constant or self.step)
        start = emit.full(0.0, f32, [self.rows, at.size, ROWS])

        def some(k: SSAValue, acc: SSAValue, size: int) -> SSAValue:
            a = self.tiles.tile_of(op.a, (rows, Span(k, size, inside=True)))
            b = self._right(op, at, k, size)
            return emit.add(tile.DotOp(a, b, acc, [(1, 1)]))

        whole = depth - depth % step
        following = [] if quantised else self._following(op, at, step)

        def next_columns(k: SSAValue, acc: SSAValue) -> Sequence[SSAValue]:
            for lines in following:
                lines.ask(emit.over(k, step))
            return [some(k, acc, step)]

        bounds = (emit.index(0), emit.extent(whole), emit.index(step))
        (acc,) = self.tiles.loop(*bounds, [start], next_columns)
        left = (depth - whole).evaluate({})
        return some(emit.extent(whole), acc, left) if left else acc

    def _following(self, op: nn.DotGeneralOp, at: Span, step: int) -> list[Lines]:
        """Return what is asked for beside a product of several rows with panels of floats."""
        steps = self.shape.k // step
        if self.at_once or self.prologue or steps == 0:
            return []
        blocks, depth = self.shape.rows.ceildiv(self.rows), self.shape.k
        following = Following(self.tiles, self.block, blocks, self.rows, depth, steps, step)
        memrefs, ahead = self.tiles.memrefs, self.count * self.fit.band
        lines = [following.left(memrefs[op.a])]
        more = (self.shape.panels - ahead).maximum(0).minimum(1)
        if more != 0:
            weight = op.b.owner.x if isinstance(op.b.owner, nn.CastOp) else op.b
            panels = Span(self.emit.plus(at.start, ahead), at.size, inside=True)
            lines.insert(0, following.weights(memrefs[weight], panels, more))
        return lines

    def _right(self, op: nn.DotGeneralOp, at: Span, k: SSAValue, size: int) -> SSAValue:
        """The right operand for some columns of K: `[j, size, 16]` f32."""
        if isinstance(op.b.owner, quant.DequantizeOp):
            return dequantized_columns(self.tiles, op.b.owner, at, k, ahead=self.ahead)
        lanes = Span(self.emit.index(0), ROWS, inside=True)
        return self.tiles.tile_of(op.b, (at, Span(k, size, inside=True), lanes))
