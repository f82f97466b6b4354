"""Let a kernel finish its tiles: bias, activation, residual, rope, quantisation, cache writes."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from lamina.dialects import nn
from lamina.passes.functions import find_function
from lamina.passes.groups import Groups, body_ops, calls_of, reshapes_to, users
from lamina.passes.kernels.anchors import Grain, has_statistics, is_end, is_product
from lamina.passes.kernels.column_tiles import cuts, tile_counts


@dataclass(frozen=True)
class FuseEpiloguesPass(ModulePass):
    """What only goes on with one kernel's result, element by element, is in that kernel.

    Kernels with an end are those of products, attention, reductions, norms and softmax.
    """

    name = "fuse-epilogues"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        function = find_function(op, "forward")
        if function is None:
            return
        groups = Groups.of(op)
        for call in calls_of(function):
            if call.parent is not None:
                grain = Grain.of(body_ops(groups.called(call)))
                if grain is not None:
                    _extend(groups, call, grain)
        groups.drop_unused()


def _extend(groups: Groups, call: nn.CallOp, grain: Grain) -> None:
    """Merge one user after the other, as long as there is one that fits."""
    while True:
        for user in users(call):
            if isinstance(user, nn.CallOp) and _fits(groups, call, user, grain):
                merged = groups.merge(call, user)
                if merged is not None:
                    call = merged
                    break
        else:
            return


def _fits(groups: Groups, call: nn.CallOp, user: nn.CallOp, grain: Grain) -> bool:
    if user.parent is not call.parent:
        return False
    body = groups.called(user)
    ops = body_ops(body)
    if any(is_product(op) for op in ops) or has_statistics(ops):
        return False
    made: set[SSAValue] = set()
    between: list[Operation] = []
    for operand, arg in zip(user.xs, body.body.block.args, strict=True):
        chain = reshapes_to(operand, set(call.ys))
        if chain is None:
            continue
        if not all(map(grain.keeps, chain)):
            return False
        made.add(arg)
        between += chain
    if not is_end(ops, made, grain):
        return False
    ends = [*between, *ops]
    if not grain.flexible or not any(map(cuts, ends)):
        return True
    return bool(tile_counts([*body_ops(groups.called(call)), *ends]))
