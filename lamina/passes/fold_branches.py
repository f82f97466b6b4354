"""Compute what branches make of weights alone once, before them."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass

from lamina.dialects import nn
from lamina.passes.constants import depends_on_weights, is_constant, is_listed
from lamina.passes.functions import find_function


@dataclass(frozen=True)
class FoldBranchesPass(ModulePass):
    """No branch of a switch computes anything from weights alone: that comes before the switch.

    Constants of one value stay where they are used.
    """

    name = "fold-branches"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        function = find_function(op, "forward")
        if function is not None:
            _lift(function.body.block, depends_on_weights(function))


def _lift(block: Block, known: set[SSAValue]) -> None:
    for op in list(block.ops):
        if not isinstance(op, nn.SwitchOp):
            continue
        for branch in op.branches:
            _lift(branch.block, known)
            for each in list(branch.block.ops):
                splat = isinstance(each, nn.ConstantOp) and not is_listed(each)
                if is_constant(each, known) and not splat:
                    known |= set(each.results)
                    each.detach()
                    block.insert_op_before(each, op)
