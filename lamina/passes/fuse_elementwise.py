"""Compute chains of elementwise operations, and what feeds a row operation, in one kernel."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from lamina.dialects import nn
from lamina.dialects.tensors import extents
from lamina.passes.functions import find_function
from lamina.passes.groups import Groups, body_ops, calls_of, reshapes_to, users
from lamina.passes.kernels.anchors import SIDE, is_pointwise
from lamina.passes.kernels.axes import keeps_dimensions
from lamina.passes.kernels.rows import STATISTICS


@dataclass(frozen=True)
class FuseElementwisePass(ModulePass):
    """An elementwise kernel whose result only one row kernel uses is part of that kernel.

    Reshapes between the two that put in or take out dimensions of one element are part of it too.
    """

    name = "fuse-elementwise"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        function = find_function(op, "forward")
        if function is None:
            return
        groups = Groups.of(op)
        while _merge_once(groups, function):
            pass
        groups.drop_unused()


def _merge_once(groups: Groups, function: FuncOp) -> bool:
    """Merge calls into their only users; return whether there were any.

    What had several users may have one once those are merged.
    """
    found = False
    for each in calls_of(function):
        call = each if each.parent is not None else None
        while call is not None and (user := _only_user(groups, call)) is not None:
            call = groups.merge(call, user)
            found = found or call is not None
    return found


def _only_user(groups: Groups, call: nn.CallOp) -> nn.CallOp | None:
    """Return the one call that uses a call's results, if it can compute them by itself."""
    following = users(call)
    if len(following) != 1 or not isinstance(user := following[0], nn.CallOp):
        return None
    return user if user.parent is call.parent and _fits(groups, call, user) else None


def _fits(groups: Groups, call: nn.CallOp, user: nn.CallOp) -> bool:
    first, second = groups.called(call), groups.called(user)
    maps = all(is_pointwise(op) or isinstance(op, (*SIDE, nn.ReshapeOp)) for op in body_ops(first))
    if not maps or second.anchor.data != "rows" or len({extents(y.type) for y in call.ys}) != 1:
        return False
    made: set[SSAValue] = set(call.ys)
    between = [op for x in user.xs for op in reshapes_to(x, made) or ()]
    direct = all(op.assumed is None and keeps_dimensions(op) for op in between)
    known = (*SIDE, *STATISTICS)
    return direct and all(
        is_pointwise(op) or isinstance(op, (*known, nn.ReshapeOp)) for op in body_ops(second)
    )
