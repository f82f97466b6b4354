"""Build scans: running sums and the like along one dimension.

Along the last dimension a program takes a row, chunk by chunk, each scanned by itself and brought
up to date with all before it. Along another one the last dimension is in lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import IntegerAttr, IntegerType, StringAttr
from xdsl.ir import SSAValue

from lamina.dialects import nn, tile
from lamina.dialects.dims import product
from lamina.dialects.tensors import extents
from lamina.errors import LoweringError
from lamina.passes.kernels.kernel import Kernel
from lamina.passes.kernels.row_kernel import WIDEST
from lamina.passes.kernels.rows import COMBINE, chunk_of, neutral, over_row
from lamina.passes.kernels.subscripts import Span


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

        def step(i: SSAValue, total: SSAValue) -> Sequence[SSAValue]:
            lead = [Span(j, 1, inside=True) for j in at]
            lead.insert(self.dim, Span(i, 1, inside=True))
            total = self._combined(total, self._read(lead, columns))
            self._put(lead, columns, total)
            return [total]

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
            x = self._read(lead, span)
            properties = {"kind": StringAttr(self.kind), "dim": IntegerAttr(0, 64)}
            scan = tile.ScanOp.create(operands=[x], properties=properties, result_types=[x.type])
            total = emit.broadcast(carried[0], [0], [self.width])
            y = self._combined(total, emit.add(scan))
            self._put(lead, span, y)
            return [emit.add(tile.SliceOp(y, [self.width - 1], [1]))]

        over_row(self.tiles, self.shape[-1], self.width, part, [before])
        return kernel.finish([product(outer)])

    def _read(self, lead: Sequence[Span], span: Span) -> SSAValue:
        return self.emit.reshape(self.tiles.tile_of(self.op.x, (*lead, span)), [self.width])

    def _put(self, lead: Sequence[Span], span: Span, y: SSAValue) -> None:
        y = self.emit.reshape(y, [*(1 for _ in lead), self.width])
        self.tiles.store(y, self.kernel.result(0), (*lead, span))
