"""Build softmax along a dimension that is not the last: lanes along the last, three loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from lamina.dialects import nn, tile
from lamina.dialects.dims import product
from lamina.dialects.tensors import extents
from lamina.passes.kernels.kernel import Kernel
from lamina.passes.kernels.row_kernel import WIDEST
from lamina.passes.kernels.rows import chunk_of, single
from lamina.passes.kernels.subscripts import Span


def build_softmax(group: nn.GroupOp, name: str) -> tile.KernelOp:
    """Build the kernel of a group whose anchor is a softmax that is not along rows."""
    kernel = Kernel(group, name)
    op = next(op for op in kernel.ops if isinstance(op, nn.SoftmaxOp))
    return _Builder(kernel, op).build()


class _Builder:
    def __init__(self, kernel: Kernel, op: nn.SoftmaxOp) -> None:
        self.kernel, self.op = kernel, op
        self.emit, self.tiles = kernel.emit, kernel.tiles
        self.axis, self.shape = op.axis.value.data, extents(op.x.type)
        self.width = chunk_of(self.shape[-1], WIDEST)

    def build(self) -> tile.KernelOp:
        """Emit the loops and close the kernel."""
        kernel, emit, width = self.kernel, self.emit, self.width
        outer = tuple(n for d, n in enumerate(self.shape[:-1]) if d != self.axis)
        at = kernel.unravel(kernel.program(1), outer) if outer else []
        whole = self.shape[-1].constant is not None and self.shape[-1].constant % width == 0
        columns = Span(emit.times(kernel.program(0), width), width, inside=whole)

        def lead(i: SSAValue) -> list[Span]:
            found = [Span(j, 1, inside=True) for j in at]
            found.insert(self.axis, Span(i, 1, inside=True))
            return found

        def read(i: SSAValue) -> SSAValue:
            x = single(self.tiles, self.op.x, (*lead(i), columns))
            return emit.reshape(x, [width])

        largest = self._fold(arith.MaximumfOp, float("-inf"), read)

        def power(i: SSAValue) -> SSAValue:
            return emit.decay(emit.binary(arith.SubfOp, read(i), largest))

        total = self._fold(arith.AddfOp, 0.0, power)
        part = emit.binary(arith.DivfOp, emit.full(1.0, f32, [width]), total)

        def finish(i: SSAValue) -> Sequence[SSAValue]:
            y = emit.binary(arith.MulfOp, power(i), part)
            self.tiles.fix(self.op.y, emit.cast(y, nn.element(self.op.y)))
            kernel.store(lead(i), columns)
            return []

        self._loop([], finish)
        return kernel.finish([self.shape[-1].ceildiv(width), product(outer)])

    def _fold(
        self,
        combine: type[arith.MaximumfOp] | type[arith.AddfOp],
        start: float,
        value: Callable[[SSAValue], SSAValue],
    ) -> SSAValue:
        first = self.emit.full(start, f32, [self.width])

        def step(i: SSAValue, total: SSAValue) -> Sequence[SSAValue]:
            return [self.emit.binary(combine, total, value(i))]

        return self._loop([first], step)[0]

    def _loop(
        self, carried: list[SSAValue], body: Callable[..., Sequence[SSAValue]]
    ) -> list[SSAValue]:
        emit, extent = self.emit, self.emit.extent(self.shape[self.axis])
        return self.tiles.loop(emit.index(0), extent, emit.index(1), carried, body)
