"""Build scatters: a copy, then the updates one after another, so that duplicates have an order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import IndexType, IntegerType
from xdsl.ir import SSAValue

from lamina.dialects import nn, tile
from lamina.dialects.dims import Dim, product
from lamina.dialects.tensors import extents
from lamina.errors import LoweringError
from lamina.passes.kernels.kernel import Kernel
from lamina.passes.kernels.row_kernel import WIDEST
from lamina.passes.kernels.rows import COMBINE, chunk_of
from lamina.passes.kernels.signs import on
from lamina.passes.kernels.subscripts import Index, Span


def build_scatter(group: nn.GroupOp, name: str) -> tile.KernelOp:
    """Build the kernel of a group that is one `nn.scatter`: a program takes some columns."""
    kernel = Kernel(group, name)
    (op,) = kernel.ops
    if not isinstance(op, nn.ScatterOp):
        raise LoweringError("a scatter kernel holds one scatter")
    return _Builder(kernel, op).build()


class _Builder:
    def __init__(self, kernel: Kernel, op: nn.ScatterOp) -> None:
        self.kernel, self.op = kernel, op
        self.emit, self.tiles = kernel.emit, kernel.tiles
        self.shape, self.y = extents(op.x.type), kernel.result(0)
        self.places = extents(op.indices.type)
        self.width = chunk_of(self.shape[-1], WIDEST) if len(self.shape) > 1 else 1

    def build(self) -> tile.KernelOp:
        """Emit the copy and the loop over updates, and close the kernel."""
        kernel, emit, inner = self.kernel, self.emit, self.shape[1:]
        grid = [Dim.of(1)]
        rest: list[Span] = []
        if inner:
            outer = inner[:-1]
            at = kernel.unravel(kernel.program(1), outer) if outer else []
            start = emit.times(kernel.program(0), self.width)
            rest = [*(Span(i, 1, inside=True) for i in at), Span(start, self.width)]
            grid = [inner[-1].ceildiv(self.width), product(outer)]
        self._loop(self.shape[0], lambda row: self._copy(row, rest))
        self._loop(product(self.places), lambda number: self._update(number, rest))
        return kernel.finish(grid)

    def _loop(self, count: Dim, body: Callable[[SSAValue], None]) -> None:
        emit = self.emit

        def step(i: SSAValue) -> Sequence[SSAValue]:
            body(i)
            return []

        self.tiles.loop(emit.index(0), emit.extent(count), emit.index(1), [], step)

    def _copy(self, row: SSAValue, rest: list[Span]) -> None:
        index: Index = (Span(row, 1, inside=True), *rest)
        self.tiles.store(self.tiles.tile_of(self.op.x, index), self.y, index)

    def _update(self, number: SSAValue, rest: list[Span]) -> None:
        emit, kind = self.emit, self.op.kind.data
        at = self.kernel.unravel(number, self.places) if self.places else []
        where = [Span(i, 1, inside=True) for i in at]
        row = emit.reshape(self.tiles.tile_of(self.op.indices, tuple(where)), ())
        index: Index = (Span(emit.cast(row, IndexType()), 1), *rest)
        new = self.tiles.tile_of(self.op.updates, (*where, *rest))
        new = emit.reshape(new, [sub.size for sub in index])
        if kind != "set":
            integer = isinstance(nn.element(self.op.x), IntegerType)
            old = self.tiles.load(self.y, index)
            new = emit.binary(on(COMBINE[kind][integer], nn.element(self.op.x)), old, new)
        self.tiles.store(new, self.y, index)
