"""Let products of two tensors read what was transposed where it lay before."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Use
from xdsl.passes import ModulePass

from lamina.dialects import nn
from lamina.dialects.tensors import extents
from lamina.dialects.tile import pairs, values
from lamina.passes.functions import find_function
from lamina.passes.groups import Groups, body_ops, calls_of


@dataclass(frozen=True)
class FuseTransposesPass(ModulePass):
    """A transpose that leaves the last dimension last, and is for products of two tensors alone,
    is part of each of them if they read it once a tile: as rows, or to turn it round.
    """

    name = "fuse-transposes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        function = find_function(op, "forward")
        if function is None:
            return
        groups = Groups.of(op)
        for call in calls_of(function):
            if call.parent is not None and _moves_rows(groups.called(call)):
                _spread(groups, call)
        groups.drop_unused()


def _moves_rows(group: nn.GroupOp) -> bool:
    """Whether a group is one transpose whose rows stay whole."""
    match body_ops(group):
        case [nn.TransposeOp() as op]:
            perm = values(op.perm)
            return perm[-1] == len(perm) - 1
        case _:
            return False


def _spread(groups: Groups, call: nn.CallOp) -> None:
    """Merge a call into each of its users, if all of them are products of two tensors."""
    following = [use.operation for use in call.ys[0].uses]
    if not all(_multiplies(groups, user, call) for user in following):
        return
    for user in dict.fromkeys(following):
        assert isinstance(user, nn.CallOp)
        groups.merge(groups.beside(call, user), user)
    call.detach()
    call.erase()


def _multiplies(groups: Groups, user: object, call: nn.CallOp) -> bool:
    """Whether a user is a product that takes what a call gives, and reads it once a tile."""
    if not isinstance(user, nn.CallOp) or groups.called(user).anchor.data != "dot":
        return False
    group = groups.called(user)
    mine = [arg for arg, x in zip(group.body.block.args, user.xs, strict=True) if x in call.ys]
    return all(_reads_once(use) for arg in mine for use in arg.uses)


def _reads_once(use: Use) -> bool:
    """Whether a product takes a value as rows, or turns it round: others it reads for all rows."""
    op = use.operation
    if not isinstance(op, nn.DotGeneralOp):
        return False
    return use.index == 0 or pairs(op.contract)[0][1] == len(extents(op.b.type)) - 1
