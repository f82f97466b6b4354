"""Look-ups in tables in primitives."""

from __future__ import annotations

from xdsl.dialects.builtin import f32
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from lamina.dialects import nn, quant
from lamina.dialects.quant import BlocksType
from lamina.passes.composites.spelling import Spelling


class EmbeddingToGather(RewritePattern):
    """embedding(table, ids) -> gather(table, ids), the table dequantised if it is of blocks"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.EmbeddingOp, rewriter: PatternRewriter, /) -> None:
        """Replace the operation."""
        spell, table = Spelling(op, rewriter), op.table
        if isinstance(table.type, BlocksType):
            table = spell.add(quant.DequantizeOp([table], *table.type.shape))
        spell.finish(spell.cast(spell.add(nn.GatherOp(table, op.ids)), f32))
