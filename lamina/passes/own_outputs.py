"""Give each output of `@forward` a call of its own, whose kernel writes the caller's array."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, SSAValue

from lamina.dialects import nn
from lamina.dialects.cache import PagesType
from lamina.dialects.tensors import extents
from lamina.passes.groups import Groups, before_reshapes


def own_outputs(
    groups: Groups, function: FuncOp, chosen: Callable[[Attribute], bool] = lambda type: True
) -> None:
    """Copy each output of a `chosen` type that is an input or another output."""
    end = function.body.block.last_op
    assert isinstance(end, ReturnOp)
    if isinstance(end.prev_op, nn.SwitchOp):
        for branch in end.prev_op.branches:
            _copy_shared(groups, branch.block, chosen)
    else:
        _copy_shared(groups, function.body.block, chosen)


def _copy_shared(groups: Groups, block: Block, chosen: Callable[[Attribute], bool]) -> None:
    end = block.last_op
    assert end is not None
    taken: set[SSAValue] = set()
    for i, value in enumerate(end.operands):
        if isinstance(value.type, PagesType) or not chosen(value.type):
            continue
        source = before_reshapes(value)
        if source not in taken and isinstance(source.owner, nn.CallOp):
            taken.add(source)
            continue
        copy = nn.ReshapeOp(value, extents(value.type))
        block.insert_op_before(copy, end)
        end.operands[i] = groups.outline(copy).ys[0]
