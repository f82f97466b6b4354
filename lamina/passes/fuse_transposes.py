"""Let products of two tensors, and first convolutions, read what was transposed where it lay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, ModuleOp
from xdsl.ir import SSAValue, Use
from xdsl.passes import ModulePass

from lamina.dialects import nn
from lamina.dialects.tensors import extents
from lamina.dialects.tile import pairs, values
from lamina.passes.functions import find_function
from lamina.passes.groups import Groups, body_ops, calls_of

COLORS = 4
"""Channels that windows read apart: elements of each lie side by side, those of a place do not."""

Taking = Callable[[Groups, object, nn.CallOp], bool]
"""Whether a user takes what a call gives as it lay before."""


@dataclass(frozen=True)
class FuseTransposesPass(ModulePass):
    """A transpose that leaves the last dimension last, and is for products of two tensors alone,
    is part of each of them if they read it once a tile: as rows, or to turn it round. So is one
    that puts few channels last, as of an image's colors, and is for convolutions alone.
    """

    name = "fuse-transposes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        function = find_function(op, "forward")
        if function is None:
            return
        groups = Groups.of(op)
        for call in calls_of(function):
            if call.parent is None:
                continue
            if _moves_rows(groups.called(call)):
                _spread(groups, call, _multiplies)
            elif _moves_colors(groups.called(call)):
                _spread(groups, call, _slides)
        groups.drop_unused()


def _moves_rows(group: nn.GroupOp) -> bool:
    """Whether a group is one transpose whose rows stay whole."""
    match body_ops(group):
        case [nn.TransposeOp() as op]:
            perm = values(op.perm)
            return perm[-1] == len(perm) - 1
        case _:
            return False


def _moves_colors(group: nn.GroupOp) -> bool:
    """Whether a group is one transpose that puts few channels behind spatial dimensions."""
    match body_ops(group):
        case [nn.TransposeOp() as op]:
            perm, channels = values(op.perm), extents(op.y.type)[-1].constant
            last = perm == (0, *range(2, len(perm)), 1) and len(perm) > 2
            return last and channels is not None and channels <= COLORS
        case _:
            return False


def _spread(groups: Groups, call: nn.CallOp, takes: Taking) -> None:
    """Merge a call into each of its users, if all of them take it."""
    following = [use.operation for use in call.ys[0].uses]
    if not all(takes(groups, user, call) for user in following):
        return
    for user in dict.fromkeys(following):
        assert isinstance(user, nn.CallOp)
        groups.merge(groups.beside(call, user), user)
    call.detach()
    call.erase()


def _slides(groups: Groups, user: object, call: nn.CallOp) -> bool:
    """Whether a user is a convolution whose windows slide over what a call gives."""
    if not isinstance(user, nn.CallOp) or groups.called(user).anchor.data != "conv":
        return False
    (op,) = (op for op in body_ops(groups.called(user)) if isinstance(op, nn.ConvOp))
    mine = [arg for arg, x in _passed(groups, user) if x in call.ys]
    floats = isinstance(nn.element(op.x), AnyFloat)
    return (
        floats
        and op.groups.value.data == 1
        and all(use.operation is op and use.index == 0 for arg in mine for use in arg.uses)
    )


def _multiplies(groups: Groups, user: object, call: nn.CallOp) -> bool:
    """Whether a user is a product that takes what a call gives, and reads it once a tile."""
    if not isinstance(user, nn.CallOp) or groups.called(user).anchor.data != "dot":
        return False
    mine = [arg for arg, x in _passed(groups, user) if x in call.ys]
    return all(_reads_once(use) for arg in mine for use in arg.uses)


def _passed(groups: Groups, call: nn.CallOp) -> Iterator[tuple[SSAValue, SSAValue]]:
    """Yield each argument of the group that a call names, and what it is."""
    return zip(groups.called(call).body.block.args, call.xs, strict=True)


def _reads_once(use: Use) -> bool:
    """Whether a product takes a value as rows, or turns it round: others it reads for all rows."""
    op = use.operation
    if not isinstance(op, nn.DotGeneralOp):
        return False
    return use.index == 0 or pairs(op.contract)[0][1] == len(extents(op.b.type)) - 1
