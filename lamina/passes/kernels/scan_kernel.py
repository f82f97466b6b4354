"""Build scans: running sums and the like along one dimension.

Along the last dimension a program takes a row, chunk by chunk, each scanned by itself and brought
up to date with all before it. Along another one the last dimension is in lanes. A reverse scan
takes its elements by vectors of descending places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerAttr, IntegerType, StringAttr
from xdsl.ir import SSAValue

from lamina.dialects import nn, tile
from lamina.dialects.dims import product
from lamina.dialects.tensors import extents
from lamina.errors import LoweringError
from lamina.passes.kernels.kernel import Kernel
from lamina.passes.kernels.row_kernel import WIDEST
from lamina.passes.kernels.rows import COMBINE, chunk_of, neutral, over_row
from lamina.passes.kernels.signs import extremes
from lamina.passes.kernels.subscripts import Rows, Span, Subscript


def build_scan(group: nn.GroupOp, name: str) -> tile.KernelOp:
    """Build the kernel of a group that is one `nn.scan`."""
    kernel = Kernel(group, name)
    (op,) = kernel.ops
    if not isinstance(op, nn.ScanOp):
        raise LoweringError("a scan kernel holds one scan")
    return _Builder(kernel, op).build()


class _Builder:
    def __init__(self, kernel: Kernel, op: nn.ScanOp) -> None:
        self.kernel, self.op = kernel, op
        self.emit, self.tiles = kernel.emit, kernel.tiles
        self.shape, self.dim = extents(op.x.type), op.dim.value.data
        self.element, self.kind = nn.element(op.x), op.kind.data
        self.exclusive, self.reverse = op.exclusive is not None, op.reverse is not None
        self.width = chunk_of(self.shape[-1], WIDEST)
        start = neutral(self.kind, self.element)
        self.start = self.emit.full(start, self.element, [self.width])

    def build(self) -> tile.KernelOp:
        """Emit the loops and close the kernel."""
        return self._across() if self.dim == len(self.shape) - 1 else self._down()

    def _combined(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.emit.binary(COMBINE[self.kind][isinstance(self.element, IntegerType)], a, b)

    def _down(self) -> tile.KernelOp:
        kernel, emit = self.kernel, self.emit
        outer = tuple(n for d, n in enumerate(self.shape[:-1]) if d != self.dim)
        at = kernel.unravel(kernel.program(1), outer) if outer else []
        columns = Span(emit.times(kernel.program(0), self.width), self.width)
        last = emit.extent(self.shape[self.dim] - 1)

        def step(i: SSAValue, total: SSAValue) -> Sequence[SSAValue]:
            lead = [Span(j, 1, inside=True) for j in at]
            i = emit.add(arith.SubiOp(last, i)) if self.reverse else i
            lead.insert(self.dim, Span(i, 1, inside=True))
            after = self._combined(total, self._read(lead, columns))
            self._put(lead, columns, total if self.exclusive else after)
            return [after]

        self._loop(step)
        return kernel.finish([self.shape[-1].ceildiv(self.width), product(outer)])

    def _loop(self, step: Callable[..., Sequence[SSAValue]]) -> None:
        emit, extent = self.emit, self.emit.extent(self.shape[self.dim])
        self.tiles.loop(emit.index(0), extent, emit.index(1), [self.start], step)

    def _across(self) -> tile.KernelOp:
        kernel, emit = self.kernel, self.emit
        outer = self.shape[:-1]
        at = kernel.unravel(kernel.program(0), outer) if outer else []
        lead = [Span(i, 1, inside=True) for i in at]
        before = emit.full(neutral(self.kind, self.element), self.element, [1])

        def part(span: Span, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            sub = self._turned(span)
            x = self._read(lead, sub)
            properties = {"kind": StringAttr(self.kind), "dim": IntegerAttr(0, 64)}
            scan = tile.ScanOp.create(operands=[x], properties=properties, result_types=[x.type])
            total = emit.broadcast(carried[0], [0], [self.width])
            y = self._combined(total, emit.add(scan))
            self._put(lead, sub, self._delayed(carried[0], y) if self.exclusive else y)
            return [emit.add(tile.SliceOp(y, [self.width - 1], [1]))]

        over_row(self.tiles, self.shape[-1], self.width, part, [before])
        return kernel.finish([product(outer)])

    def _turned(self, span: Span) -> Subscript:
        """Return where the elements of a chunk are, which in a reverse scan go down."""
        if not self.reverse:
            return span
        emit, wide = self.emit, [self.width]
        last = emit.add(arith.SubiOp(emit.extent(self.shape[-1] - 1), span.start))
        counts = emit.add(tile.IotaOp(IndexType(), self.width))
        down = emit.binary(arith.SubiOp, emit.add(tile.SplatOp(last, wide)), counts)
        return Rows(down, self.width, span.inside)

    def _delayed(self, before: SSAValue, y: SSAValue) -> SSAValue:
        """Return for each place of a chunk the result of those before it."""
        if self.width == 1:
            return before
        kept = self.emit.add(tile.SliceOp(y, [0], [self.width - 1]))
        return self.emit.add(tile.JoinOp([before, kept], 0))

    def _read(self, lead: Sequence[Span], sub: Subscript) -> SSAValue:
        x = self.emit.reshape(self.tiles.tile_of(self.op.x, (*lead, sub)), [self.width])
        return extremes(self.emit, x, self.kind, self.element)

    def _put(self, lead: Sequence[Span], sub: Subscript, y: SSAValue) -> None:
        y = extremes(self.emit, y, self.kind, self.element)
        y = self.emit.reshape(y, [*(1 for _ in lead), self.width])
        self.tiles.store(y, self.kernel.result(0), (*lead, sub))
