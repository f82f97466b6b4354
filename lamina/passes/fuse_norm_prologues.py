"""Let each worker of a product compute its left operand's few rows by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, SSAValue
from xdsl.passes import ModulePass

from lamina.dialects import nn, quant
from lamina.dialects.dims import Dim
from lamina.dialects.tile import values
from lamina.passes.functions import find_function
from lamina.passes.groups import Groups, body_ops, calls_in, users
from lamina.passes.kernels.anchors import SIDE, has_statistics, is_pointwise
from lamina.passes.kernels.linear_kernel import is_linear, shape_of


@dataclass(frozen=True)
class FuseNormProloguesPass(ModulePass):
    """In branches of at most `rows` rows, a norm (and its quantisation) is part of its products.

    It is then done once a worker instead of once, which saves a launch and a barrier.
    """

    name = "fuse-norm-prologues"

    rows: int = 1

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        function = find_function(op, "forward")
        if function is None:
            return
        groups = Groups.of(op)
        for rows, block in _small_branches(function.body.block, self.rows):
            for call in calls_in(block):
                if call.parent is not None and _is_prologue(groups.called(call)):
                    _spread(groups, call, rows)
        groups.drop_unused()


def _small_branches(block: Block, most: int) -> Iterator[tuple[Dim, Block]]:
    """Yield the branches that run only where the switch's extent is at most `most`."""
    for op in block.ops:
        if isinstance(op, nn.SwitchOp):
            for bound, branch in zip(values(op.bounds), op.branches, strict=False):
                if bound <= most:
                    yield Dim.of(op.value.data), branch.block


def _is_prologue(group: nn.GroupOp) -> bool:
    ops = body_ops(group)
    known = (nn.RmsNormOp, nn.LayerNormOp, quant.QuantizeOp, *SIDE)
    return (
        group.anchor.data == "rows"
        and all(is_pointwise(op) or isinstance(op, known) for op in ops)
        and (has_statistics(ops) or any(isinstance(op, quant.QuantizeOp) for op in ops))
    )


def _spread(groups: Groups, call: nn.CallOp, rows: Dim) -> None:
    """Merge a call into each of its users, if all of them are products of these rows."""
    following = users(call)
    if not following or not all(_takes(groups, user, call, rows) for user in following):
        return
    for user in following:
        assert isinstance(user, nn.CallOp)
        groups.merge(groups.beside(call, user), user)
    call.detach()
    call.erase()


def _takes(groups: Groups, user: object, call: nn.CallOp, rows: Dim) -> bool:
    """Whether a user is a product whose left operands are just this call's results."""
    if not isinstance(user, nn.CallOp) or groups.called(user).anchor.data != "linear":
        return False
    group = groups.called(user)
    outside: dict[SSAValue, SSAValue] = dict(zip(group.body.block.args, user.xs, strict=True))
    left: set[SSAValue] = set()
    for op in body_ops(group):
        if isinstance(op, quant.LinearOp | nn.DotGeneralOp):
            if not is_linear(op) or shape_of(op).rows != rows:
                return False
            left |= {op.q, op.d, op.s} if isinstance(op, quant.LinearOp) else {op.a}
    mine = {outside.get(value, value) for value in left}
    used = [x for x in user.xs if x in call.ys]
    return mine == set(used) and all(y in mine for y in call.ys if y.uses)
