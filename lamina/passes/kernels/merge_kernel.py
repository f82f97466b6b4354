"""Build the merging of attention's parts: those of a token and a head, in ascending order.

A program takes one token, and as many heads as hold whole pieces of what follows. The sums of two
parts are brought to their common maximum and added, as flash decoding does (Dao et al. 2023).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, f32
from xdsl.ir import SSAValue

from lamina.dialects import cache, nn, tile
from lamina.dialects.dims import Dim
from lamina.dialects.quant import BLOCK
from lamina.dialects.tensors import extents
from lamina.passes.kernels.emit import Emit
from lamina.passes.kernels.kernel import Kernel
from lamina.passes.kernels.subscripts import Span

LOWEST = -3.4028234663852886e38
"""The maximum of no scores: what is hidden, at -inf, has no weight beside it either."""


def build_merge(group: nn.GroupOp, name: str) -> tile.KernelOp:
    """Build the kernel of a group whose anchor is `cache.merge`."""
    kernel = Kernel(group, name)
    return _Builder(kernel, kernel.only(cache.MergeOp)).build()


def merged_heads(op: cache.MergeOp) -> int:
    """Return how many heads a program merges: one if it holds whole blocks, else all."""
    _, heads, width = extents(op.y.type)
    return 1 if width % BLOCK == 0 else heads.evaluate({})


class Merging:
    """Two parts of some rows, by their maxima: how much of each the sums of both have."""

    def __init__(self, emit: Emit, before: SSAValue, part: SSAValue) -> None:
        """Emit what the maxima of the parts before and of one more, [rows], decide."""
        self.emit = emit
        higher = emit.add(tile.CompareOp("lt", before, part))
        self.top = emit.add(tile.SelectOp(higher, part, before))
        self._before, self._part = (
            emit.decay(emit.binary(arith.SubfOp, top, self.top)) for top in (before, part)
        )

    def sum(self, before: SSAValue, part: SSAValue) -> SSAValue:
        """Return the sums of both, [rows] or [rows, columns]."""
        emit, shape = self.emit, tile.shape_of(before.type)
        decay, weight = (emit.broadcast(x, [0], shape) for x in (self._before, self._part))
        return emit.fma(before, decay, emit.binary(arith.MulfOp, part, weight))


class _Builder:
    def __init__(self, kernel: Kernel, op: cache.MergeOp) -> None:
        self.kernel, self.op = kernel, op
        self.emit, self.tiles = kernel.emit, kernel.tiles
        self.tokens, heads, _ = extents(op.y.type)
        self.parts = extents(op.parts.type)[2]
        self.heads, self.width = merged_heads(op), extents(op.y.type)[2].evaluate({})
        self.groups = heads.evaluate({}) // self.heads

    def build(self) -> tile.KernelOp:
        """Emit the program and close the kernel."""
        emit = self.emit
        token, group = self.kernel.program(0), self.kernel.program(1)
        held = Span(token, 1, inside=True), Span(emit.times(group, self.heads), self.heads, True)
        rows = self.heads
        start = [emit.full(LOWEST, f32, [rows]), emit.full(0.0, f32, [rows])]
        start.append(emit.full(0.0, f32, [rows, self.width]))

        def merge(part: SSAValue, *before: SSAValue) -> Sequence[SSAValue]:
            return self._merged((*held, Span(part, 1, inside=True)), before)

        turns = emit.index(0), self._seen(held[0]), emit.index(1)
        _, totals, values = self.tiles.loop(*turns, start, merge)
        y = emit.binary(arith.DivfOp, values, emit.broadcast(totals, [0], (rows, self.width)))
        self.tiles.fix(self.op.y, y)
        size = rows * self.width
        self.kernel.store([held[0]], Span(emit.times(group, size), size, inside=True))
        return self.kernel.finish([self.tokens, Dim.of(self.groups)])

    def _seen(self, token: Span) -> SSAValue:
        """Return how many parts a token sees, at most those that there are."""
        emit = self.emit
        position = emit.reshape(self.tiles.tile_of(self.op.positions, (token,)), ())
        last = emit.add(arith.MaxSIOp(emit.cast(position, IndexType()), emit.index(0)))
        count = emit.plus(emit.over(last, self.op.span.value.data), 1)
        return emit.add(arith.MinSIOp(count, emit.extent(self.parts)))

    def _merged(
        self, where: tuple[Span, Span, Span], before: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        """Return maxima, sums and values with one more part."""
        emit, memref, rows = self.emit, self.tiles.memrefs[self.op.parts], self.heads

        def load(column: int, shape: tuple[int, ...]) -> SSAValue:
            span = Span(emit.index(column), shape[1] if len(shape) > 1 else 1, inside=True)
            return self.tiles.load(memref, (*where, span), shape=shape)

        values = load(0, (rows, self.width))
        top, total = (load(self.width + beside, (rows,)) for beside in range(2))
        merging = Merging(emit, before[0], top)
        return [merging.top, merging.sum(before[1], total), merging.sum(before[2], values)]
