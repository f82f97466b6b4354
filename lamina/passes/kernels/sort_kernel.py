"""Build sorts of short rows: every element counts those that come before it.

That count is its place in the result. It is a stable order without branches, whose work grows
with the square of the row.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerType, i32
from xdsl.ir import SSAValue

from lamina.dialects import nn, tile
from lamina.dialects.dims import product
from lamina.dialects.tensors import extents, is_unsigned
from lamina.errors import LoweringError
from lamina.passes.kernels.kernel import Kernel
from lamina.passes.kernels.row_kernel import WIDEST
from lamina.passes.kernels.rows import chunk_of
from lamina.passes.kernels.subscripts import Index, Rows, Span

LONGEST = 1 << 13
"""The longest row that is sorted this way, if its length is known."""


def build_sort(group: nn.GroupOp, name: str) -> tile.KernelOp:
    """Build the kernel of a group that is one `nn.sort`: a program takes a chunk."""
    kernel = Kernel(group, name)
    (op,) = kernel.ops
    if not isinstance(op, nn.SortOp):
        raise LoweringError("a sort kernel holds one sort")
    return _Builder(kernel, op).build()


class _Builder:
    def __init__(self, kernel: Kernel, op: nn.SortOp) -> None:
        self.kernel, self.op = kernel, op
        self.emit, self.tiles = kernel.emit, kernel.tiles
        self.shape, self.dim = extents(op.x.type), op.dim.value.data
        self.length = self.shape[self.dim]
        if self.length.constant is not None and self.length.constant > LONGEST:
            raise LoweringError(f"a sort kernel takes at most {LONGEST} elements")
        self.width = chunk_of(self.length, WIDEST)
        self.unsigned = is_unsigned(nn.element(op.x))

    def build(self) -> tile.KernelOp:
        """Emit the count of a chunk of a row and close the kernel."""
        kernel = self.kernel
        outer = tuple(n for d, n in enumerate(self.shape) if d != self.dim)
        at = kernel.unravel(kernel.program(1), outer) if outer else []
        lead = [Span(i, 1, inside=True) for i in at]
        whole = self.length.constant is not None and self.length.constant % self.width == 0
        start = self.emit.times(kernel.program(0), self.width)
        self._chunk(lead, Span(start, self.width, inside=whole))
        return kernel.finish([self.length.ceildiv(self.width), product(outer)])

    def _chunk(self, lead: list[Span], span: Span) -> None:
        emit, wide = self.emit, [self.width]
        x = emit.reshape(self.tiles.tile_of(self.op.x, self._index(lead, span)), wide)
        counts = emit.add(tile.IotaOp(IndexType(), self.width))
        places = emit.binary(arith.AddiOp, counts, emit.add(tile.SplatOp(span.start, wide)))

        def count(j: SSAValue, before: SSAValue) -> Sequence[SSAValue]:
            other = self.tiles.tile_of(self.op.x, self._index(lead, Span(j, 1, inside=True)))
            other = emit.broadcast(emit.reshape(other, [1]), [0], wide)
            earlier = self._compare("lt", emit.add(tile.SplatOp(j, wide)), places)
            comes = self._precedes(other, x, earlier)
            return [emit.binary(arith.AddiOp, before, emit.cast(comes, i32, unsigned=True))]

        nothing = emit.full(0, i32, wide)
        one, end = emit.index(1), emit.extent(self.length)
        (rank,) = self.tiles.loop(emit.index(0), end, one, [nothing], count)
        if not span.inside:
            last = emit.add(tile.SplatOp(end, wide))
            rank = self._choose(self._compare("lt", places, last), rank, emit.cast(last, i32))
        where = self._index(lead, Rows(emit.cast(rank, IndexType()), self.width, inside=False))
        for number, value in enumerate((x, emit.cast(places, i32))):
            boxed = emit.reshape(value, [sub.size for sub in where])
            self.tiles.store(boxed, self.kernel.result(number), where)

    def _index(self, lead: list[Span], sub: Span | Rows) -> Index:
        return (*lead[: self.dim], sub, *lead[self.dim :])

    def _precedes(self, a: SSAValue, b: SSAValue, earlier: SSAValue) -> SSAValue:
        """Return where `a` comes before `b`, ties by `earlier`; NaN comes last."""
        emit = self.emit
        kind = "gt" if self.op.descending is not None else "lt"
        before = emit.add(tile.CompareOp(kind, a, b, unsigned=self.unsigned))
        equal = self._compare("eq", a, b)
        if not isinstance(nn.element(self.op.x), IntegerType):
            a_is, b_is = self._compare("ne", a, a), self._compare("ne", b, b)
            number = self._compare("eq", a, a)
            before = emit.binary(arith.OrIOp, before, emit.binary(arith.AndIOp, number, b_is))
            equal = emit.binary(arith.OrIOp, equal, emit.binary(arith.AndIOp, a_is, b_is))
        return emit.binary(arith.OrIOp, before, emit.binary(arith.AndIOp, equal, earlier))

    def _compare(self, kind: str, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.emit.add(tile.CompareOp(kind, a, b))

    def _choose(self, c: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.emit.add(tile.SelectOp(c, a, b))
