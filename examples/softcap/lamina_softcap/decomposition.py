"""A soft cap in primitives."""

from __future__ import annotations

from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from lamina.dialects import nn
from lamina.passes.composites.spelling import Spelling
from lamina_softcap.dialect import SoftcapOp


class SoftcapToTanh(RewritePattern):
    """softcap(x) -> cap * tanh(x / cap)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SoftcapOp, rewriter: PatternRewriter, /) -> None:
        """Replace the operation."""
        spell = Spelling(op, rewriter)
        x = spell.wide(op.x)
        part = spell.add(nn.TanhOp(spell.add(nn.DivOp(x, spell.fill(op.limit, x.type)))))
        spell.finish(spell.cast(spell.scaled(part, op.limit), nn.element(op.y)))
