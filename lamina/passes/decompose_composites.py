"""Spell composite operations in the primitives of the core."""

from __future__ import annotations

from collections.abc import Collection, Container
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern

from lamina.dialects import cache, nn, quant
from lamina.passes.composites.activations import GeluToErf, ReluToMax, SigmoidToExp, SiluToExp
from lamina.passes.composites.attention import AttentionToSoftmax
from lamina.passes.composites.embedding import EmbeddingToGather
from lamina.passes.composites.norms import LayerNormToMeans, RmsNormToMean, SoftmaxToExp
from lamina.passes.composites.pages import AttentionToReads, SequenceToSum
from lamina.passes.composites.quantisation import (
    DequantizeToProduct,
    LinearToDot,
    QuantizeToRound,
)
from lamina.passes.composites.rotations import RopeToProducts
from lamina.passes.composites.windows import ConvTransposeToConv, PowerPoolToSum
from lamina.passes.composites.winograd import WinogradToProducts
from lamina.passes.known import KNOWN

DECOMPOSITIONS: dict[type[Operation], type[RewritePattern]] = {
    cache.AttentionOp: AttentionToReads,
    cache.SequenceOp: SequenceToSum,
    nn.AttentionOp: AttentionToSoftmax,
    nn.ConvTransposeOp: ConvTransposeToConv,
    nn.EmbeddingOp: EmbeddingToGather,
    nn.GeluOp: GeluToErf,
    nn.LayerNormOp: LayerNormToMeans,
    nn.PoolOp: PowerPoolToSum,
    nn.ReluOp: ReluToMax,
    nn.RmsNormOp: RmsNormToMean,
    nn.RopeOp: RopeToProducts,
    nn.SigmoidOp: SigmoidToExp,
    nn.SiluOp: SiluToExp,
    nn.SoftmaxOp: SoftmaxToExp,
    nn.WinogradOp: WinogradToProducts,
    quant.DequantizeOp: DequantizeToProduct,
    quant.LinearOp: LinearToDot,
    quant.QuantizeOp: QuantizeToRound,
}
"""The meaning of each composite operation of the box in simpler ones."""


@dataclass(frozen=True)
class DecomposeCompositesPass(ModulePass):
    """No composite is left but those that `keep` names; with `only`, none of those it names."""

    name = "decompose-composites"

    keep: tuple[str, ...] = ()
    only: tuple[str, ...] = ()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        decompose_in(op, self.keep, self.only)


def decompose_in(op: Operation, keep: Container[str], only: Collection[str] = ()) -> None:
    """Spell the composites inside `op` in primitives, in place, but for those `keep` names."""
    patterns = {
        kind: pattern()
        for kind, pattern in KNOWN.decompositions().items()
        if kind.name not in keep and (not only or kind.name in only)
    }
    walker = PatternRewriteWalker(_ByType(patterns))
    for region in op.regions:
        walker.rewrite_region(region)


class _ByType(RewritePattern):
    """Apply to each operation the pattern of its type, if there is one."""

    def __init__(self, patterns: dict[type[Operation], RewritePattern]) -> None:
        self.patterns = patterns

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter, /) -> None:
        if (pattern := self.patterns.get(type(op))) is not None:
            pattern.match_and_rewrite(op, rewriter)
