"""Activations in primitives."""

from __future__ import annotations

import math

from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from lamina.dialects import nn
from lamina.passes.composites.spelling import Spelling


class ReluToMax(RewritePattern):
    """relu(x) -> max(x, 0)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.ReluOp, rewriter: PatternRewriter, /) -> None:
        """Replace the operation."""
        spell = Spelling(op, rewriter)
        spell.finish(spell.add(nn.MaxOp(op.x, spell.fill(0.0, op.x.type))))


class SigmoidToExp(RewritePattern):
    """sigmoid(x) -> (x < 0 ? e : 1) / (1 + e), e = exp(-|x|), which does not overflow"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.SigmoidOp, rewriter: PatternRewriter, /) -> None:
        """Replace the operation."""
        spell = Spelling(op, rewriter)
        x = spell.wide(op.x)
        zero, one = spell.fill(0.0, x.type), spell.fill(1.0, x.type)
        power = spell.add(nn.ExpOp(spell.add(nn.NegOp(spell.add(nn.AbsOp(x))))))
        above = spell.add(nn.SelectOp(spell.add(nn.CompareOp("lt", x, zero)), power, one))
        y = spell.add(nn.DivOp(above, spell.add(nn.AddOp(power, one))))
        spell.finish(spell.cast(y, nn.element(op.y)))


class SiluToExp(RewritePattern):
    """silu(x) -> x / (1 + exp(-x))"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.SiluOp, rewriter: PatternRewriter, /) -> None:
        """Replace the operation."""
        spell = Spelling(op, rewriter)
        x = spell.wide(op.x)
        power = spell.add(nn.ExpOp(spell.add(nn.NegOp(x))))
        y = spell.add(nn.DivOp(x, spell.shifted(power, 1.0)))
        spell.finish(spell.cast(y, nn.element(op.y)))


class GeluToErf(RewritePattern):
    """gelu(x) -> x/2 * (1 + f(x)), f(x) = erf(x / sqrt 2) or tanh(sqrt(2/pi) * (x + a*x^3))"""

    CUBIC = 0.044715
    """The factor a of the tanh form (Hendrycks and Gimpel 2016)."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.GeluOp, rewriter: PatternRewriter, /) -> None:
        """Replace the operation."""
        spell = Spelling(op, rewriter)
        x = spell.wide(op.x)
        if op.approximate is None:
            part = spell.add(nn.ErfOp(spell.scaled(x, math.sqrt(0.5))))
        else:
            square = spell.add(nn.MulOp(x, x))
            factor = spell.shifted(spell.scaled(square, self.CUBIC), 1.0)
            angle = spell.scaled(spell.add(nn.MulOp(x, factor)), math.sqrt(2.0 / math.pi))
            part = spell.add(nn.TanhOp(angle))
        y = spell.add(nn.MulOp(spell.scaled(x, 0.5), spell.shifted(part, 1.0)))
        spell.finish(spell.cast(y, nn.element(op.y)))
