"""Give each output of `@forward` a call of its own, whose kernel writes the caller's array."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, SSAValue

from lamina.dialects import nn
from lamina.dialects.cache import PagesType
from lamina.dialects.tensors import extents
from lamina.passes.functions import blocks_in
from lamina.passes.groups import Groups, before_reshapes, is_assumed


def own_outputs(
    groups: Groups, function: FuncOp, chosen: Callable[[Attribute], bool] = lambda type: True
) -> None:
    """Copy each output of a `chosen` type that is an input or another output.

    Likewise what branches of switches give.
    """
    whole = function.body.block
    end = whole.last_op
    assert isinstance(end, ReturnOp)
    for block in blocks_in(whole)[1:]:
        _copy_shared(groups, block, chosen)
    last = end.prev_op
    if not isinstance(last, nn.SwitchOp) or tuple(last.ys) != tuple(end.arguments):
        _copy_shared(groups, whole, chosen)


def _copy_shared(groups: Groups, block: Block, chosen: Callable[[Attribute], bool]) -> None:
    end = block.last_op
    assert end is not None
    taken: set[SSAValue] = set()
    for i, value in enumerate(end.operands):
        if isinstance(value.type, PagesType) or not chosen(value.type):
            continue
        source = before_reshapes(value)
        # The caller's array may be made only after its extents are bound, and so too late.
        direct = isinstance(source.owner, nn.CallOp) and not is_assumed(value)
        if source not in taken and direct:
            taken.add(source)
            continue
        copy = nn.ReshapeOp(value, extents(value.type))
        block.insert_op_before(copy, end)
        end.operands[i] = groups.outline(copy).ys[0]
