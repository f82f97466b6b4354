"""Give `@forward` a branch for each range of its rows, so that later passes can tell them apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents
from lamina.passes.functions import argument_attributes, find_function
from lamina.passes.groups import Groups, body_ops, calls_in
from lamina.passes.kernels.linear_kernel import Product, is_linear, shape_of


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
        anchors = {"linear", "attention"} if attends else {"linear"}
        found = [
            (dim, groups.called(call))
            for call in calls_in(function.body.block)
            if groups.called(call).anchor.data in anchors
            for dim in _rows_of(call)
        ]
        rows = _most(dim for dim, _ in found)
        if rows is None or _is_of_parts(rows, found):
            return
        if bounds := sorted(each for each in asked if each > 1 or _steps(function, rows)):
            _branch(function, rows, bounds)


def _attends(group: nn.GroupOp) -> bool:
    return group.anchor.data == "attention"


def _rows_of(call: nn.CallOp) -> Iterator[Dim]:
    """Yield the symbolic rows of a call's results."""
    for y in call.ys:
        if y.type.name == "tensor":
            yield from (dim for dim in extents(y.type)[:1] if dim.symbols)


def _most(dims: Iterable[Dim]) -> Dim | None:
    found = Counter(dims)
    return found.most_common(1)[0][0] if found else None


def _is_of_parts(rows: Dim, found: Sequence[tuple[Dim, nn.GroupOp]]) -> bool:
    """Whether most weights are those of products that have several rows for each of `rows`."""
    same = sum(_weights(group) for dim, group in found if dim == rows)
    parts = (group for dim, group in found if dim != rows and dim.symbols >= rows.symbols)
    return sum(map(_weights, parts)) > same


def _weights(group: nn.GroupOp) -> int:
    """Return the elements of the weights of a group's products."""
    products = [cast("Product", op) for op in body_ops(group) if is_linear(op)]
    return sum(shape.depth * shape.columns for shape in map(shape_of, products))


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
