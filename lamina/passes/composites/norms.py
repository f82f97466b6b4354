"""Softmax and norms in primitives."""

from __future__ import annotations

from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from lamina.dialects import nn
from lamina.dialects.tensors import extents
from lamina.passes.composites.spelling import Spelling


class SoftmaxToExp(RewritePattern):
    """softmax(x) -> e / sum(e), e = exp(x - max(x))"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.SoftmaxOp, rewriter: PatternRewriter, /) -> None:
        """Replace the operation."""
        spell, axis = Spelling(op, rewriter), op.axis.value.data
        x = spell.wide(op.x)
        largest = spell.along(spell.reduce(x, "max", [axis]), x, axis)
        power = spell.add(nn.ExpOp(spell.add(nn.SubOp(x, largest))))
        total = spell.along(spell.reduce(power, "add", [axis]), x, axis)
        spell.finish(spell.cast(spell.add(nn.DivOp(power, total)), nn.element(op.y)))


class LayerNormToMeans(RewritePattern):
    """layer_norm(x, w, b) -> c * rsqrt(mean(c^2) + eps) * w + b, c = x - mean(x)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.LayerNormOp, rewriter: PatternRewriter, /) -> None:
        """Replace the operation."""
        spell = Spelling(op, rewriter)
        x, last = spell.wide(op.x), len(extents(op.x.type)) - 1
        centred = spell.add(nn.SubOp(x, spell.along(spell.mean(x), x, last)))
        y = _scaled(spell, centred, op.w, op.eps.value.data)
        b = spell.broadcast(spell.wide(op.b), [last], extents(y.type))
        spell.finish(spell.cast(spell.add(nn.AddOp(y, b)), nn.element(op.y)))


class RmsNormToMean(RewritePattern):
    """rms_norm(x, w) -> x * rsqrt(mean(x^2) + eps) * w"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.RmsNormOp, rewriter: PatternRewriter, /) -> None:
        """Replace the operation."""
        spell = Spelling(op, rewriter)
        y = _scaled(spell, spell.wide(op.x), op.w, op.eps.value.data)
        spell.finish(spell.cast(y, nn.element(op.y)))


def _scaled(spell: Spelling, x: SSAValue, w: SSAValue, eps: float) -> SSAValue:
    """Return `x * rsqrt(mean(x^2) + eps) * w` over the last dimension."""
    last = len(extents(x.type)) - 1
    square = spell.mean(spell.add(nn.MulOp(x, x)))
    factor = spell.along(spell.add(nn.RsqrtOp(spell.shifted(square, eps))), x, last)
    w = spell.broadcast(spell.wide(w), [last], extents(x.type))
    return spell.add(nn.MulOp(spell.add(nn.MulOp(x, factor)), w))
