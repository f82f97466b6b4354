"""Outline every operation as a group, so that the passes after it can merge them."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from lamina.dialects import nn, quant
from lamina.dialects.tensors import extents
from lamina.passes.functions import find_function
from lamina.passes.groups import Groups, users
from lamina.passes.rewriting import erase_unused

FREE: tuple[type[Operation], ...] = (nn.ReshapeOp, nn.CallOp, nn.SwitchOp, ReturnOp)
"""Operations of `@forward` that need no kernel."""


@dataclass(frozen=True)
class OutlineGroupsPass(ModulePass):
    """`@forward` is calls of groups of one operation, and reshapes.

    Constants of one value, and what only widens a weight, are put in with each of their users.
    """

    name = "outline-groups"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        function = find_function(op, "forward")
        if function is None:
            return
        groups, block = Groups.of(op), function.body.block
        erase_unused(block)
        for each in list(block.ops):
            if not isinstance(each, FREE):
                groups.outline(each)
        for call in [c for c in block.ops if isinstance(c, nn.CallOp)]:
            if _is_cheap(groups.called(call)):
                _spread(groups, call)
        groups.drop_unused()


def _is_cheap(group: nn.GroupOp) -> bool:
    """Whether a group is better computed again by each user than stored."""
    ops = list(group.body.block.ops)[:-1]
    widening = isinstance(ops[0], quant.DequantizeOp) or (
        isinstance(ops[0], nn.CastOp) and len(group.body.block.args) == 1 and _is_weight(ops[0])
    )
    return len(ops) == 1 and (isinstance(ops[0], nn.ConstantOp) or widening)


def _is_weight(op: nn.CastOp) -> bool:
    return all(n.constant is not None for n in extents(op.x.type)) and len(extents(op.x.type)) > 1


def _spread(groups: Groups, call: nn.CallOp) -> None:
    """Merge a call into each of its users."""
    for user in users(call):
        if isinstance(user, nn.CallOp):
            mine = call.clone()
            assert call.parent is not None
            call.parent.insert_op_before(mine, call)
            for i, operand in enumerate(user.operands):
                if operand in call.ys:
                    user.operands[i] = mine.ys[list(call.ys).index(operand)]
            groups.merge(mine, user)
    if not any(y.uses for y in call.ys):
        call.detach()
        call.erase()
