"""Build products of integers and of f64, and those that contract any number of dimensions.

Where the last dimension of the result is one of the right operand's memory, its columns are in
lanes, each a chain of fused multiply-adds (of integers: products and sums). Else a program takes
one element, and the last contracted dimension is in lanes, which come together at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from lamina.dialects import nn, tile
from lamina.dialects.dims import Dim, product
from lamina.dialects.tensors import extents, is_unsigned
from lamina.passes.kernels.dot_kernel import build_dot
from lamina.passes.kernels.kernel import Kernel
from lamina.passes.kernels.row_kernel import WIDEST
from lamina.passes.kernels.rows import chunk_of, over_row
from lamina.passes.kernels.subscripts import Index, Span, sizes


def build_contraction(group: nn.GroupOp, name: str) -> tile.KernelOp:
    """Build the kernel of a group whose anchor is one `nn.dot_general`.

    One that has a schedule is of bytes, for matrix units, and built as products with tiles are.
    """
    if group.schedule is not None:
        return build_dot(group, name)
    kernel = Kernel(group, name)
    return _Builder(kernel, kernel.only(nn.DotGeneralOp)).build()


class _Builder:
    def __init__(self, kernel: Kernel, op: nn.DotGeneralOp) -> None:
        self.kernel, self.op = kernel, op
        self.emit, self.tiles = kernel.emit, kernel.tiles
        self.pairs, self.batch = tile.pairs(op.contract), tile.pairs(op.batch)
        self.element = nn.element(op.y)
        self.depths = [extents(op.a.type)[i] for i, _ in self.pairs]
        self.depth = self.depths[-1] if self.depths else Dim.of(1)
        self.outer = self.depths[:-1]
        self.width = chunk_of(self.depth, WIDEST)

    def build(self) -> tile.KernelOp:
        """Emit the loops and close the kernel."""
        last = len(extents(self.op.b.type)) - 1
        used = (*self.batch, *self.pairs)
        return self._one() if last < 0 or last in {j for _, j in used} else self._columns()

    def _columns(self) -> tile.KernelOp:
        """Compute a chunk of a row of the result."""
        kernel, emit, shape = self.kernel, self.emit, extents(self.op.y.type)
        lead, extent = shape[:-1], shape[-1]
        self.width = chunk_of(extent, WIDEST)
        at = kernel.unravel(kernel.program(1), lead) if lead else []
        whole = extent.constant is not None and extent.constant % self.width == 0
        columns = Span(emit.times(kernel.program(0), self.width), self.width, inside=whole)
        result = [*map(_alone, at), columns]

        def step(i: SSAValue, acc: SSAValue) -> Sequence[SSAValue]:
            places = kernel.unravel(i, self.depths) if self.depths else []
            return [self._step(*self._operands(result, [*map(_alone, places)]), acc)]

        start, count = emit.full(0, self.element, [self.width]), product(self.depths)
        (acc,) = self.tiles.loop(emit.index(0), emit.extent(count), emit.index(1), [start], step)
        self.tiles.fix(self.op.y, acc)
        kernel.store(result[:-1], columns)
        return kernel.finish([extent.ceildiv(self.width), product(lead)])

    def _one(self) -> tile.KernelOp:
        """Compute one element of the result."""
        kernel, emit, shape = self.kernel, self.emit, extents(self.op.y.type)
        at = kernel.unravel(kernel.program(0), shape) if shape else []
        result = [*map(_alone, at)]
        start = emit.full(0, self.element, [self.width])

        def outer(i: SSAValue, acc: SSAValue) -> Sequence[SSAValue]:
            spans = [*map(_alone, kernel.unravel(i, self.outer))]

            def part(span: Span, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
                a, b = self._operands(result, [*spans[: len(self.outer)], span])
                return [self._step(a, b, carried[0])]

            return over_row(self.tiles, self.depth, self.width, part, [acc])

        count = product(self.outer)
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
        x = self.emit.reshape(x, [prod(sizes(index))])
        return self.emit.broadcast(x, [0], [self.width])

    def _step(self, a: SSAValue, b: SSAValue, acc: SSAValue) -> SSAValue:
        emit = self.emit
        if isinstance(self.element, IntegerType):
            return emit.binary(arith.AddiOp, acc, emit.binary(arith.MuliOp, a, b))
        return emit.fma(a, b, acc)


def _alone(place: SSAValue) -> Span:
    return Span(place, 1, inside=True)
