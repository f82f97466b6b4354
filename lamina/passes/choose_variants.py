"""Give `@forward` a branch for each range of its rows, so that later passes can tell them apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents
from lamina.passes.functions import argument_attributes, find_function
from lamina.passes.groups import Groups, calls_in


@dataclass(frozen=True)
class ChooseVariantsPass(ModulePass):
    """`@forward` is one `nn.switch` over the rows of its products, with `bounds`.

    The rows are the extent that most products have; a module without symbolic rows, or
    without products, stays as it is. Where they are a product of several extents, as of sequences
    and their tokens, and no state goes on from step to step, a bound of 1 is left out: all
    extents at once are hardly ever 1. `attention` are further bounds of a module that attends to
    pages, whose rows attention counts among, too. A module that binds extents on its way, or has
    switches, stays as it is.
    """

    name = "choose-variants"

    bounds: tuple[int, ...] = (1,)
    attention: tuple[int, ...] = ()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        function = find_function(op, "forward")
        if function is None:
            return
        if any(isinstance(each, nn.BindOp | nn.SwitchOp) for each in function.body.block.ops):
            # What is bound on the way is not known where a switch over rows would stand.
            return
        groups = Groups.of(op)
        attends = self.attention and any(map(_attends, groups.by_name.values()))
        asked = {*self.bounds, *(self.attention if attends else ())}
        rows = _rows(groups, function, {"linear", "attention"} if attends else {"linear"})
        if rows is None:
            return
        if bounds := sorted(each for each in asked if each > 1 or _steps(function, rows)):
            _branch(function, rows, bounds)


def _attends(group: nn.GroupOp) -> bool:
    return group.anchor.data == "attention"


def _rows(groups: Groups, function: FuncOp, anchors: set[str]) -> Dim | None:
    found: Counter[Dim] = Counter()
    for call in calls_in(function.body.block):
        if groups.called(call).anchor.data in anchors:
            ranked = (y for y in call.ys if y.type.name == "tensor")
            found.update(dim for y in ranked for dim in extents(y.type)[:1] if dim.symbols)
    return found.most_common(1)[0][0] if found else None


def _steps(function: FuncOp, rows: Dim) -> bool:
    """Tell whether a single row is usual: a batch of one, or a step of one sequence."""
    stated = any("lamina.state" in names.data for _, names in argument_attributes(function))
    return stated or len(rows.symbols) == 1


def _branch(function: FuncOp, rows: Dim, bounds: Sequence[int]) -> None:
    block = function.body.block
    end = block.last_op
    assert isinstance(end, ReturnOp)
    outs = list(end.arguments)
    ops = list(block.ops)[:-1]
    branches: list[Region] = []
    for _ in range(len(bounds) + 1):
        inner = Block()
        values: dict[SSAValue, SSAValue] = {}
        for op in ops:
            inner.add_op(op.clone(values))
        inner.add_op(nn.YieldOp(*(values.get(out, out) for out in outs)))
        branches.append(Region(inner))
    switch = nn.SwitchOp(rows, bounds, branches, [out.type for out in outs])
    block.insert_op_before(switch, end)
    end.detach()
    end.erase()
    for op in reversed(ops):
        op.detach()
        op.erase(safe_erase=False)
    block.add_op(ReturnOp(*switch.ys))
