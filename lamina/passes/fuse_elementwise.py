"""Compute chains of elementwise operations, and what feeds a row operation, in one kernel."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from lamina.dialects import nn
from lamina.dialects.tensors import extents
from lamina.passes.functions import find_function
from lamina.passes.groups import Groups, Wiring, body_ops, calls_of, reshapes_to, users
from lamina.passes.kernels.anchors import SIDE, is_pointwise
from lamina.passes.kernels.axes import axes_of, keeps_dimensions
from lamina.passes.kernels.rows import STATISTICS


@dataclass(frozen=True)
class FuseElementwisePass(ModulePass):
    """An elementwise kernel whose result only one row kernel uses is part of that kernel.

    So is a reduction along rows whose result only one kernel of just those rows uses, and reshapes
    between the two that put in or take out dimensions of one element.
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
    if second.anchor.data != "rows" or len({extents(y.type) for y in call.ys}) != 1:
        return False
    made: set[SSAValue] = set(call.ys)
    between = [op for x in user.xs for op in reshapes_to(x, made) or ()]
    if not all(op.assumed is None and keeps_dimensions(op) for op in between):
        return False
    if not _goes_through_rows(body_ops(second), (*SIDE, *STATISTICS)):
        return False
    if _goes_through_rows(body_ops(first), SIDE):
        return True
    folds = first.anchor.data == "rows" and _goes_through_rows(body_ops(first), _WITH_FOLDS)
    return folds and _is_of_rows(Wiring.of(call, user).build(first, second).block)


_WITH_FOLDS = (*SIDE, nn.ReduceOp)


def _goes_through_rows(ops: list[Operation], others: tuple[type[Operation], ...]) -> bool:
    return all(is_pointwise(op) or isinstance(op, (*others, nn.ReshapeOp)) for op in ops)


def _is_of_rows(block: Block) -> bool:
    """Whether all results are rows, of which all that is folded is: each program's own."""
    *ops, end = block.ops
    if (axes := axes_of(ops)) is None or not _goes_through_rows(ops, _WITH_FOLDS):
        return False
    folded = [op.x for op in ops if isinstance(op, nn.ReduceOp)]
    shapes = {extents(value.type) for value in (*end.operands, *folded)}
    if len(shapes) != 1:
        return False
    wide = [d for d, n in enumerate(shapes.pop()) if n != 1]
    ways = {tuple(axes.of((value, d)) for d in wide) for value in (*end.operands, *folded)}
    return len(ways) == 1 and len(set(ways.pop())) == len(wide)
