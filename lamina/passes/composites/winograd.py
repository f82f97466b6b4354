"""Convolutions by transforms in primitives."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from lamina.dialects import nn
from lamina.dialects.dims import product
from lamina.dialects.tensors import extents, tensor
from lamina.dialects.tile import values
from lamina.dialects.toom_cook import Matrix, filtering
from lamina.passes.composites.spelling import Spelling


class WinogradToProducts(RewritePattern):
    """winograd(x, w) -> A^T sum(w * (B^T windows(x) B)) A

    What tiles meet at each of their places is a slice of x; points are multiplied as a batch of
    products.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.WinogradOp, rewriter: PatternRewriter, /) -> None:
        """Replace the operation."""
        spell = Spelling(op, rewriter)
        matrices = filtering(op.results_abreast, op.taps)
        data = _turned(spell, matrices.b, _met(spell, op))
        sums = spell.add(nn.DotGeneralOp(data, op.w, [(2, 2)], [(0, 0)]))
        points, count, panels, lanes = extents(sums.type)
        rows = spell.reshape(sums, [points, count, panels * lanes])
        rows = spell.add(nn.SliceOp(rows, [0, 0, 0], [points, count, op.outputs]))
        spell.finish(_placed(spell, op, _turned(spell, matrices.a, rows)))


def _met(spell: Spelling, op: nn.WinogradOp) -> SSAValue:
    """Return what tiles meet at each place, `[reach * reach, tiles, C]`."""
    size, shape = op.results_abreast, extents(op.x.type)
    images, *counts = op.tiles
    low = values(op.pads)[0::2]
    ends = [n * size + op.taps - 1 - low[d] - shape[1 + d] for d, n in enumerate(counts)]
    zero = FloatAttr(0.0, nn.element(op.x))  # pyright: ignore[reportArgumentType, reportCallIssue]
    x = spell.add(nn.PadOp(op.x, [0, *low, 0], [0, *ends, 0], zero))
    flat = [1, product(op.tiles), shape[-1]]
    places = [(i, j) for i in range(op.reach) for j in range(op.reach)]
    met = [
        nn.SliceOp(x, [0, i, j, 0], [images, *counts, shape[-1]], [1, size, size, 1])
        for i, j in places
    ]
    return spell.add(nn.ConcatOp([spell.reshape(spell.add(each), flat) for each in met], 0))


def _turned(spell: Spelling, matrix: Matrix, x: SSAValue) -> SSAValue:
    """Return `[n * n, tiles, C]`, rows and columns of n each transformed by a matrix `[m, n]`."""
    after, before, rest = len(matrix), len(matrix[0]), extents(x.type)[1:]
    kind = tensor(nn.element(x), [after, before])
    listed = [float(number) for row in matrix for number in row]
    m = spell.add(nn.ConstantOp(DenseIntOrFPElementsAttr.from_list(kind, listed), kind))
    x = spell.reshape(x, [before, before, *rest])
    x = spell.add(nn.DotGeneralOp(m, x, [(1, 0)]))
    x = spell.add(nn.DotGeneralOp(m, x, [(1, 1)]))
    x = spell.add(nn.TransposeOp(x, [1, 0, 2, 3]))
    return spell.reshape(x, [after * after, *rest])


def _placed(spell: Spelling, op: nn.WinogradOp, y: SSAValue) -> SSAValue:
    """Return `[tile * tile, tiles, O]` as the result of the operation."""
    size, outputs = op.results_abreast, op.outputs
    images, height, width = op.tiles
    y = spell.reshape(y, [size, size, images, height, width, outputs])
    y = spell.add(nn.TransposeOp(y, [2, 3, 0, 4, 1, 5]))
    y = spell.reshape(y, [images, height * size, width * size, outputs])
    y = spell.add(nn.SliceOp(y, [0] * 4, [*op.positions, outputs]))
    return spell.reshape(y, extents(op.y.type))
