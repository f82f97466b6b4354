"""Attention over tensors in primitives."""

from __future__ import annotations

from math import inf

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents, tensor
from lamina.passes.composites.spelling import Spelling


class AttentionToSoftmax(RewritePattern):
    """attention(q, k, v) -> softmax(scale * q · k + mask) · v, heads in groups [B, G, H / G, …]"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.AttentionOp, rewriter: PatternRewriter, /) -> None:
        """Replace the operation."""
        spell = Spelling(op, rewriter)
        q, k, v = (spell.wide(each) for each in (op.q, op.k, op.v))
        batch, heads, length, depth = extents(q.type)
        groups = extents(k.type)[1]
        q = spell.reshape(q, [batch, groups, heads // groups, length, depth])
        both = [(0, 0), (1, 1)]
        scores = spell.add(nn.DotGeneralOp(q, k, [(4, 3)], both))
        scores = spell.scaled(scores, op.scale.value.data)
        if op.mask is not None:
            mask = spell.cast(op.mask, nn.element(scores))
            mask = spell.broadcast(mask, [0, 4], extents(scores.type))
            scores = spell.add(nn.AddOp(scores, mask))
        if op.causal is not None:
            scores = _hide_later(spell, scores)
        p = spell.add(nn.SoftmaxOp(scores, 4))
        y = spell.reshape(spell.add(nn.DotGeneralOp(p, v, [(4, 2)], both)), extents(op.q.type))
        spell.finish(spell.cast(y, nn.element(op.y)))


def _hide_later(spell: Spelling, scores: SSAValue) -> SSAValue:
    """Return scores [B, G, R, L, M], -inf where the key's number is above i + M - L."""
    shape = extents(scores.type)
    length, keys = shape[3:]
    own = spell.add(nn.IotaOp(0, tensor(i32, [length])))
    last = spell.add(nn.AddOp(own, _difference(spell, keys, length)))
    place = spell.add(nn.IotaOp(0, tensor(i32, [keys])))
    seen = nn.CompareOp("le", *(spell.broadcast(x, [d], shape) for x, d in ((place, 4), (last, 3))))
    return spell.add(nn.SelectOp(spell.add(seen), scores, spell.fill(-inf, scores.type)))


def _difference(spell: Spelling, keys: Dim, length: Dim) -> SSAValue:
    """Return `keys - length` in every element of i32 [length]."""
    type = tensor(i32, [length])
    if (keys - length).constant is not None:
        return spell.extent(keys - length, type)
    return spell.add(nn.SubOp(spell.extent(keys, type), spell.extent(length, type)))
