"""Attention over pages, and which sequence a token is of, in primitives."""

from __future__ import annotations

from math import inf

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from lamina.dialects import cache, nn
from lamina.dialects.tensors import extents, tensor
from lamina.passes.composites.spelling import Spelling


class SequenceToSum(RewritePattern):
    """sequence(query_start)[t] -> sum over s of (query_start[s + 1] <= t)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: cache.SequenceOp, rewriter: PatternRewriter, /) -> None:
        """Replace the operation."""
        spell = Spelling(op, rewriter)
        sequences = extents(op.query_start.type)[0] - 1
        shape = [extents(op.y.type)[0], sequences]
        ends = spell.add(nn.SliceOp(op.query_start, [1], [sequences]))
        ends = spell.broadcast(ends, [1], shape)
        token = spell.add(nn.IotaOp(0, tensor(nn.element(ends), shape)))
        over = spell.add(nn.CastOp(spell.add(nn.CompareOp("le", ends, token)), i32))
        spell.finish(spell.reduce(over, "add", [1]))


class AttentionToReads(RewritePattern):
    """attention(q, k, v) -> softmax(q · read(k) * scale where place <= position) · read(v)

    This is the graph of a decoder as it is imported, heads in groups [T, G, H / G, …].
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: cache.AttentionOp, rewriter: PatternRewriter, /) -> None:
        """Replace the operation."""
        spell = Spelling(op, rewriter)
        tokens, heads, depth = extents(op.q.type)
        sequence = spell.add(cache.SequenceOp(op.query_start, tokens))
        keys, values = (
            spell.add(cache.ReadOp(pool, op.positions, sequence, op.table)) for pool in (op.k, op.v)
        )
        groups, both = extents(keys.type)[2], [(0, 0), (1, 2)]
        q = spell.reshape(spell.wide(op.q), [tokens, groups, heads // groups, depth])
        scores = spell.add(nn.DotGeneralOp(q, keys, [(3, 3)], both))
        scores = spell.scaled(scores, op.scale.value.data)
        hidden = spell.fill(-inf, scores.type)
        scores = spell.add(nn.SelectOp(_visible(spell, scores, op.positions), scores, hidden))
        p = spell.add(nn.SoftmaxOp(scores, 3))
        y = spell.add(nn.DotGeneralOp(p, values, [(3, 1)], both))
        spell.finish(spell.cast(spell.reshape(y, [tokens, heads, depth]), nn.element(op.y)))


def _visible(spell: Spelling, scores: SSAValue, positions: SSAValue) -> SSAValue:
    """Return which keys each token may see, in the shape of scores [T, G, R, L]."""
    shape = extents(scores.type)
    place = spell.add(nn.IotaOp(0, tensor(i32, shape[3:])))
    place = spell.add(nn.BroadcastOp(place, [3], shape))
    own = spell.add(nn.BroadcastOp(positions, [0], shape))
    return spell.add(nn.CompareOp("le", place, own))
