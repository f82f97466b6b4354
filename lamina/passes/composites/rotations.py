"""Rotary positions in primitives."""

from __future__ import annotations

from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents
from lamina.passes.composites.spelling import Spelling

Half = tuple[SSAValue, SSAValue]


class RopeToProducts(RewritePattern):
    """rope((a, b), cos, sin) -> (a * cos - b * sin, a * sin + b * cos), the rest of x as it is"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.RopeOp, rewriter: PatternRewriter, /) -> None:
        """Replace the operation."""
        spell, x = Spelling(op, rewriter), op.x
        tokens, heads, width = extents(x.type)
        half = extents(op.cos.type)[1]
        rotated = _part(spell, x, Dim.of(0), half * 2)
        adjacent = op.interleaved is not None
        take, join = (_take_adjacent, _join_adjacent) if adjacent else (_take_halves, _join_halves)
        pair = take(spell, spell.wide(rotated))
        cos, sin = (
            spell.broadcast(spell.wide(turn), [0, 2], [tokens, heads, half])
            for turn in (op.cos, op.sin)
        )
        y = spell.cast(join(spell, _turned(spell, pair, cos, sin)), nn.element(x))
        if width != half * 2:
            rest = _part(spell, x, half * 2, width - half * 2)
            y = spell.add(nn.ConcatOp([y, rest], 2))
        spell.finish(y)


def _turned(spell: Spelling, pair: Half, cos: SSAValue, sin: SSAValue) -> Half:
    a, b = pair
    a_cos, b_cos = (spell.add(nn.MulOp(half, cos)) for half in (a, b))
    a_sin, b_sin = (spell.add(nn.MulOp(half, sin)) for half in (a, b))
    return spell.add(nn.SubOp(a_cos, b_sin)), spell.add(nn.AddOp(a_sin, b_cos))


def _part(spell: Spelling, x: SSAValue, start: Dim, size: Dim) -> SSAValue:
    """Return `size` elements of the last dimension of x [T, H, D]."""
    tokens, heads, width = extents(x.type)
    if size == width:
        return x
    return spell.add(nn.SliceOp(x, [0, 0, start], [tokens, heads, size]))


def _take_halves(spell: Spelling, x: SSAValue) -> Half:
    half = extents(x.type)[2] // 2
    return _part(spell, x, Dim.of(0), half), _part(spell, x, half, half)


def _join_halves(spell: Spelling, pair: Half) -> SSAValue:
    return spell.add(nn.ConcatOp(list(pair), 2))


def _take_adjacent(spell: Spelling, x: SSAValue) -> Half:
    tokens, heads, width = extents(x.type)
    half = width // 2
    pairs = spell.add(nn.ReshapeOp(x, [tokens, heads, half, 2]))
    a, b = (
        spell.add(nn.SliceOp(pairs, [0, 0, 0, which], [tokens, heads, half, 1])) for which in (0, 1)
    )
    shape = [tokens, heads, half]
    return spell.add(nn.ReshapeOp(a, shape)), spell.add(nn.ReshapeOp(b, shape))


def _join_adjacent(spell: Spelling, pair: Half) -> SSAValue:
    tokens, heads, half = extents(pair[0].type)
    columns = [spell.add(nn.ReshapeOp(each, [tokens, heads, half, 1])) for each in pair]
    pairs = spell.add(nn.ConcatOp(columns, 3))
    return spell.add(nn.ReshapeOp(pairs, [tokens, heads, half * 2]))
