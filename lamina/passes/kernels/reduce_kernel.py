"""Build reductions along any dimensions, and positions of extremes.

Where the last dimension stays, its elements are in lanes, and one loop goes over all that is
reduced. Where it vanishes, a program takes one element of the result: chunks of the last
dimension are in lanes, which come together at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, i32
from xdsl.ir import SSAValue

from lamina.dialects import nn, tile
from lamina.dialects.dims import Dim, product
from lamina.dialects.tensors import extents
from lamina.passes.kernels.emit import Body
from lamina.passes.kernels.folds import Fold
from lamina.passes.kernels.kernel import Kernel
from lamina.passes.kernels.row_kernel import WIDEST
from lamina.passes.kernels.rows import chunk_of, over_row, valid, wide
from lamina.passes.kernels.subscripts import Index, Span


def build_reduce(group: nn.GroupOp, name: str) -> tile.KernelOp:
    """Build the kernel of a group whose anchor is one `nn.reduce`."""
    kernel = Kernel(group, name)
    op = next(op for op in kernel.ops if isinstance(op, nn.ReduceOp))
    return _Builder(kernel, op).build()


class _Builder:
    def __init__(self, kernel: Kernel, op: nn.ReduceOp) -> None:
        self.kernel, self.op = kernel, op
        self.emit, self.tiles = kernel.emit, kernel.tiles
        self.shape, self.dims = extents(op.x.type), tuple(sorted(tile.values(op.dims)))
        self.kept = [d for d in range(len(self.shape)) if d not in self.dims]
        self.last = len(self.shape) - 1
        self.width = chunk_of(self.shape[-1], WIDEST)
        self.fold = Fold.of(self.emit, op, self.width)

    def build(self) -> tile.KernelOp:
        """Emit the loops and close the kernel."""
        return self._across() if self.last in self.dims else self._down()

    def _down(self) -> tile.KernelOp:
        """Reduce dimensions that are not the last one."""
        kernel, emit = self.kernel, self.emit
        outer = [self.shape[d] for d in self.kept[:-1]]
        at = kernel.unravel(kernel.program(1), outer) if outer else []
        lead = [Span(i, 1, inside=True) for i in at]
        whole = self._is_whole(self.shape[-1])
        columns = Span(emit.times(kernel.program(0), self.width), self.width, inside=whole)

        def step(i: SSAValue, *carried: SSAValue) -> Sequence[SSAValue]:
            index = self._index([*lead, columns], self._reduced(self.dims, i))
            place = emit.broadcast(emit.cast(i, i32), [], [self.width])
            return self.fold.step(carried, self._tile(index), place, None)

        carried = self._loop(self.dims, self.fold.start(), step)
        self._finish(self.fold.apart(carried))
        kernel.store(lead, columns)
        extent = self.shape[-1].ceildiv(self.width)
        return kernel.finish([extent, product(tuple(outer))])

    def _across(self) -> tile.KernelOp:
        """Reduce the last dimension, and others perhaps."""
        kernel, emit = self.kernel, self.emit
        kept = [self.shape[d] for d in self.kept]
        flat = kernel.program(0)
        lead = [Span(i, 1, inside=True) for i in kernel.unravel(flat, kept)] if kept else []
        outer = self.dims[:-1]

        def row(i: SSAValue, *carried: SSAValue) -> Sequence[SSAValue]:
            spans = self._reduced(outer, i)

            def part(span: Span, lanes: Sequence[SSAValue]) -> Sequence[SSAValue]:
                index = self._index(lead, [*spans, span])
                inside = None if span.inside else valid(self.tiles, span, self.shape[-1])
                return self.fold.step(lanes, self._tile(index), self._places(i, span), inside)

            return over_row(self.tiles, self.shape[-1], self.width, part, carried)

        carried = self._loop(outer, self.fold.start(), row)
        self._finish(self.fold.across(carried))
        one = Span(emit.index(0), 1, inside=True)
        kernel.store(lead[:-1], lead[-1] if lead else one)
        return kernel.finish([product(tuple(kept))])

    def _loop(self, dims: Sequence[int], start: list[SSAValue], body: Body) -> list[SSAValue]:
        emit = self.emit
        count = product(tuple(self.shape[d] for d in dims))
        if count == 1:
            return list(body(emit.index(0), *start))
        return self.tiles.loop(emit.index(0), emit.extent(count), emit.index(1), start, body)

    def _reduced(self, dims: Sequence[int], flat: SSAValue) -> list[Span]:
        """Return where the `flat`-th place of some dimensions is in each of them."""
        if not dims:
            return []
        at = self.kernel.unravel(flat, [self.shape[d] for d in dims])
        return [Span(i, 1, inside=True) for i in at]

    def _index(self, kept: Sequence[Span], reduced: Sequence[Span]) -> Index:
        where = dict(zip([*self.kept, *self.dims], [*kept, *reduced], strict=True))
        return tuple(where[d] for d in range(len(self.shape)))

    def _tile(self, index: Index) -> SSAValue:
        return self.emit.reshape(wide(self.tiles, self.op.x, index), [self.width])

    def _places(self, row: SSAValue, span: Span) -> SSAValue:
        """Return the position of each element of a span among all that is reduced: i32 [width]."""
        emit = self.emit
        start = emit.binary(arith.MuliOp, row, emit.extent(self.shape[-1]))
        start = emit.binary(arith.AddiOp, start, span.start)
        counts = emit.add(tile.IotaOp(IndexType(), self.width))
        places = emit.binary(arith.AddiOp, counts, emit.add(tile.SplatOp(start, [self.width])))
        return emit.cast(places, i32)

    def _is_whole(self, extent: Dim) -> bool:
        return extent.constant is not None and extent.constant % self.width == 0

    def _finish(self, result: SSAValue) -> None:
        self.tiles.fix(self.op.y, self.emit.cast(result, nn.element(self.op.y)))
