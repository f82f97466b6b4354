"""Compute chains of elementwise operations, and what feeds a row operation, in one kernel."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from lamina.dialects import nn
from lamina.dialects.tensors import extents
from lamina.passes.functions import find_function
from lamina.passes.groups import Groups, body_ops, calls_in, users
from lamina.passes.kernels.anchors import POINTWISE, SIDE, is_map


@dataclass(frozen=True)
class FuseElementwisePass(ModulePass):
    """An elementwise kernel whose result only one row kernel uses is part of that kernel."""

    name = "fuse-elementwise"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        function = find_function(op, "forward")
        if function is None:
            return
        groups = Groups.of(op)
        for call in calls_in(function.body.block):
            following = users(call) if call.parent is not None else []
            if len(following) == 1 and isinstance(user := following[0], nn.CallOp):
                if user.parent is call.parent and _fits(groups, call, user):
                    groups.merge(call, user)
        groups.drop_unused()


def _fits(groups: Groups, call: nn.CallOp, user: nn.CallOp) -> bool:
    first, second = groups.called(call), groups.called(user)
    simple = all(isinstance(op, (*POINTWISE, *SIDE)) for op in body_ops(first))
    if not simple or second.anchor.data != "rows" or not is_map(body_ops(first)):
        return False
    direct = all(y in user.xs for y in call.ys)
    shapes = {extents(y.type) for y in call.ys}
    return direct and _is_pointwise(second, shapes)


def _is_pointwise(group: nn.GroupOp, shapes: set[tuple[object, ...]]) -> bool:
    """Whether a row kernel goes through tensors of these shapes as they are."""
    from lamina.passes.kernels.rows import STATISTICS

    known = (*POINTWISE, *SIDE, *STATISTICS)
    ops = body_ops(group)
    return all(isinstance(op, known) for op in ops) and len(shapes) == 1
