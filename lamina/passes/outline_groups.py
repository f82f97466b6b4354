"""Outline every operation as a group, so that the passes after it can merge them."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from lamina.dialects import nn, quant
from lamina.dialects.tensors import extents
from lamina.dialects.tile import values
from lamina.passes.functions import blocks_in, find_function
from lamina.passes.groups import Groups, body_ops, calls_of
from lamina.passes.kernels.anchors import SIDE, is_pointwise
from lamina.passes.rewriting import erase_unused, replace_with

FREE: tuple[type[Operation], ...] = (
    nn.ReshapeOp,
    nn.CallOp,
    nn.SwitchOp,
    nn.BindOp,
    nn.YieldOp,
    ReturnOp,
)
"""Operations of `@forward` that need no kernel."""


@dataclass(frozen=True)
class OutlineGroupsPass(ModulePass):
    """`@forward` is calls of groups of one operation, and reshapes.

    Constants of one value, and what only widens a weight, are put in with each of their users;
    what only repeats or counts, with each user that maps elements. A constant of one value is
    written in the shapes that it is used in. A transpose that moves dimensions of one element alone
    is a reshape.
    """

    name = "outline-groups"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        function = find_function(op, "forward")
        if function is None:
            return
        groups, block = Groups.of(op), function.body.block
        for inner in blocks_in(block)[::-1]:
            _shape_constants(inner)
            _free_transposes(inner)
            erase_unused(inner)
            for each in list(inner.ops):
                if not isinstance(each, FREE):
                    groups.outline(each)
        pending = calls_of(function)[::-1]
        while pending:
            call = pending.pop()
            if call.parent is not None and _is_cheap(body_ops(groups.called(call))):
                pending += _spread(groups, call)
        groups.drop_unused()


def _shape_constants(block: Block) -> None:
    """Give constants of one value, and single extents, the shapes that reshapes give them."""
    for op in [op for op in block.ops if isinstance(op, nn.ReshapeOp)]:
        match op.x.owner:
            case nn.ConstantOp(value=FloatAttr() | IntegerAttr() as value):
                replace_with(op, [new := nn.ConstantOp(value, op.y.type)], [new.y])
            case nn.ExtentsOp(extents=(one,)) if len(extents(op.y.type)) < 2:
                replace_with(op, [new := nn.ExtentsOp([one], op.y.type)], [new.y])
            case _:
                pass


def _free_transposes(block: Block) -> None:
    """Make reshapes of the transposes that leave all elements where they are."""
    for op in [op for op in block.ops if isinstance(op, nn.TransposeOp)]:
        shape = extents(op.x.type)
        moved = [d for d in values(op.perm) if shape[d] != 1]
        if moved == sorted(moved):
            replace_with(op, [new := nn.ReshapeOp(op.x, extents(op.y.type))], [new.y])


def _is_cheap(ops: list[Operation]) -> bool:
    """Whether a group is better computed again by each user than stored."""
    if isinstance(ops[0], quant.DequantizeOp | nn.CastOp):
        return len(ops) == 1 and _is_weight(ops[0].results[0])
    return all(isinstance(op, SIDE) for op in ops)


def _is_weight(value: SSAValue) -> bool:
    shape = extents(value.type)
    return len(shape) > 1 and all(n.constant is not None for n in shape)


def _spread(groups: Groups, call: nn.CallOp) -> list[nn.CallOp]:
    """Merge a call into each user that takes it as it is; return the merged calls."""
    merged: list[nn.CallOp] = []
    direct = dict.fromkeys(use.operation for y in call.ys for use in y.uses)
    for user in direct:
        if isinstance(user, nn.CallOp) and _takes(groups, call, user):
            both = groups.merge(groups.beside(call, user), user)
            merged += [both] if both is not None else []
    if not any(y.uses for y in call.ys):
        call.detach()
        call.erase()
    return merged


def _takes(groups: Groups, call: nn.CallOp, user: nn.CallOp) -> bool:
    """Whether a user's kernel computes elements of the call's results where it needs them."""
    alone = (nn.ConstantOp, nn.CastOp, quant.DequantizeOp)
    if all(isinstance(op, alone) for op in body_ops(groups.called(call))):
        return True
    ops = body_ops(groups.called(user))
    return all(is_pointwise(op) or isinstance(op, SIDE) for op in ops)
