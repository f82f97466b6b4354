"""Build products that have no columns to put in lanes, or contract any number of dimensions.

A program takes one element of the result. The last contracted dimension is in lanes, each a chain
of fused multiply-adds (of integers: products and sums) that come together at the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from lamina.dialects import nn, tile
from lamina.dialects.dims import Dim, product
from lamina.dialects.tensors import extents, is_unsigned
from lamina.passes.kernels.kernel import Kernel
from lamina.passes.kernels.row_kernel import WIDEST
from lamina.passes.kernels.rows import chunk_of, over_row
from lamina.passes.kernels.subscripts import Index, Span


def build_contraction(group: nn.GroupOp, name: str) -> tile.KernelOp:
    """Build the kernel of a group whose anchor is one `nn.dot_general`."""
    kernel = Kernel(group, name)
    return _Builder(kernel, kernel.only(nn.DotGeneralOp)).build()


class _Builder:
    def __init__(self, kernel: Kernel, op: nn.DotGeneralOp) -> None:
        self.kernel, self.op = kernel, op
        self.emit, self.tiles = kernel.emit, kernel.tiles
        self.pairs, self.batch = tile.pairs(op.contract), tile.pairs(op.batch)
        self.element = nn.element(op.y)
        depths = [extents(op.a.type)[i] for i, _ in self.pairs]
        self.depth = depths[-1] if depths else Dim.of(1)
        self.outer = depths[:-1]
        self.width = chunk_of(self.depth, WIDEST)

    def build(self) -> tile.KernelOp:
        """Emit the loops and close the kernel."""
        kernel, emit, shape = self.kernel, self.emit, extents(self.op.y.type)
        at = kernel.unravel(kernel.program(0), shape) if shape else []
        result = [Span(i, 1, inside=True) for i in at]
        start = emit.full(0, self.element, [self.width])

        def outer(i: SSAValue, acc: SSAValue) -> Sequence[SSAValue]:
            spans = [Span(j, 1, inside=True) for j in kernel.unravel(i, self.outer)]

            def part(span: Span, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
                a, b = self._operands(result, [*spans[: len(self.outer)], span])
                return [self._step(a, b, carried[0])]

            return over_row(self.tiles, self.depth, self.width, part, [acc])

        count = product(tuple(self.outer))
        (acc,) = self.tiles.loop(emit.index(0), emit.extent(count), emit.index(1), [start], outer)
        self.tiles.fix(self.op.y, emit.broadcast(emit.reduce(acc, "add", [0]), [], [1]))
        one = Span(emit.index(0), 1, inside=True)
        kernel.store(result[:-1], result[-1] if result else one)
        return kernel.finish([product(shape)])

    def _operands(self, result: list[Span], contracted: list[Span]) -> tuple[SSAValue, SSAValue]:
        """Return the tiles of both operands that meet in an element: [width] each."""
        free = len(self.batch)
        a, free = self._index(self.op.a, [i for i, _ in self.batch], 0, result, contracted, free)
        b, _ = self._index(self.op.b, [j for _, j in self.batch], 1, result, contracted, free)
        return self._tile(self.op.a, a), self._tile(self.op.b, b)

    def _index(
        self,
        value: SSAValue,
        batch: list[int],
        side: int,
        result: list[Span],
        contracted: list[Span],
        free: int,
    ) -> tuple[Index, int]:
        where = dict(zip(batch, result, strict=False))
        where |= {p[side]: span for p, span in zip(self.pairs, contracted, strict=False)}
        for d in range(len(extents(value.type))):
            if d not in where:
                where[d], free = result[free], free + 1
        return tuple(where[d] for d in sorted(where)), free

    def _tile(self, value: SSAValue, index: Index) -> SSAValue:
        unsigned = is_unsigned(nn.element(value))
        x = self.emit.cast(self.tiles.tile_of(value, index), self.element, unsigned=unsigned)
        return self.emit.reshape(x, [self.width])

    def _step(self, a: SSAValue, b: SSAValue, acc: SSAValue) -> SSAValue:
        emit = self.emit
        if isinstance(self.element, IntegerType):
            return emit.binary(arith.AddiOp, acc, emit.binary(arith.MuliOp, a, b))
        return emit.fma(a, b, acc)
