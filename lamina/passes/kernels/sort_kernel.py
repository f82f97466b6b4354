"""Build sorts of short rows: every element counts those that come before it.

That count is its place in the result. It is a stable order without branches, whose work grows
with the square of the row.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IndexType, f32, f64, i32, i64
from xdsl.ir import Attribute, SSAValue

from lamina.dialects import nn, tile
from lamina.dialects.dims import product
from lamina.dialects.tensors import extents, signless
from lamina.errors import LoweringError
from lamina.passes.kernels.kernel import Kernel
from lamina.passes.kernels.row_kernel import WIDEST
from lamina.passes.kernels.rows import chunk_of
from lamina.passes.kernels.signs import ordered
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
        rank = self._rank(lead, span.start, self._key(x), places)
        if not span.inside:
            last = emit.add(tile.SplatOp(emit.extent(self.length), wide))
            inside = emit.add(tile.CompareOp("lt", places, last))
            rank = emit.add(tile.SelectOp(inside, rank, emit.cast(last, i32)))
        where = self._index(lead, Rows(emit.cast(rank, IndexType()), self.width, inside=False))
        for number, value in enumerate((x, emit.cast(places, i32))):
            boxed = emit.reshape(value, [sub.size for sub in where])
            self.tiles.store(boxed, self.kernel.result(number), where)

    def _rank(self, lead: list[Span], start: SSAValue, key: SSAValue, places: SSAValue) -> SSAValue:
        """Return how many elements come before each of a chunk that begins at `start`.

        Of equal ones all do that are before the chunk, and none that are after it.
        """
        emit, wide = self.emit, [self.width]
        end, one = emit.extent(self.length), emit.index(1)
        after = emit.add(arith.MinSIOp(emit.plus(start, self.width), end))

        def count(low: SSAValue, high: SSAValue, kind: str, found: SSAValue) -> SSAValue:
            def each(j: SSAValue, found: SSAValue) -> Sequence[SSAValue]:
                other = self.tiles.tile_of(self.op.x, self._index(lead, Span(j, 1, inside=True)))
                other = emit.broadcast(self._key(emit.reshape(other, [1])), [0], wide)
                comes = emit.add(tile.CompareOp(kind, other, key))
                if low is start:
                    earlier = tile.CompareOp("lt", emit.add(tile.SplatOp(j, wide)), places)
                    equal = emit.add(tile.CompareOp("eq", other, key))
                    equal = emit.binary(arith.AndIOp, equal, emit.add(earlier))
                    comes = emit.binary(arith.OrIOp, comes, equal)
                return [emit.binary(arith.AddiOp, found, emit.cast(comes, i32, unsigned=True))]

            return self.tiles.loop(low, high, one, [found], each)[0]

        before = count(emit.index(0), start, "le", emit.full(0, i32, wide))
        return count(after, end, "lt", count(start, after, "lt", before))

    def _key(self, x: SSAValue) -> SSAValue:
        """Return integers that ascend as the elements are to come; those of NaN are the largest.

        The bits of floats ascend with them, if those below 0 have all but their sign turned over.
        """
        emit, element, shape = self.emit, nn.element(self.op.x), tile.shape_of(x.type)
        missing = None
        if isinstance(element, AnyFloat):
            wide = f64 if element == f64 else f32
            x = emit.cast(x, wide)
            missing = emit.add(tile.CompareOp("ne", x, x))
            x = emit.binary(arith.AddfOp, x, emit.full(0.0, wide, shape))
            key: Attribute = i64 if wide == f64 else i32
            x = emit.add(arith.BitcastOp(x, tile.vector(key, shape)))
            sign = emit.binary(arith.ShRSIOp, x, emit.full(63 if key == i64 else 31, key, shape))
            below = emit.binary(arith.AndIOp, sign, self._largest(key, shape))
            x = emit.binary(arith.XOrIOp, x, below)
        else:
            key = i64 if signless(element) == i64 else i32
            x = emit.cast(ordered(emit, x, element), key)
        if self.op.descending is not None:
            x = emit.binary(arith.XOrIOp, x, emit.full(-1, key, shape))
        if missing is not None:
            x = emit.add(tile.SelectOp(missing, self._largest(key, shape), x))
        return x

    def _largest(self, key: Attribute, shape: Sequence[int]) -> SSAValue:
        return self.emit.full((1 << (63 if key == i64 else 31)) - 1, key, shape)

    def _index(self, lead: list[Span], sub: Span | Rows) -> Index:
        return (*lead[: self.dim], sub, *lead[self.dim :])
