"""Compute two products of one left operand side by side where the second's end joins them."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from lamina.dialects import nn, quant
from lamina.passes.functions import find_function
from lamina.passes.groups import Groups, body_ops, calls_of, comes_from, reshapes_to, users
from lamina.passes.kernels.column_tiles import tile_counts
from lamina.passes.kernels.linear_kernel import Product, is_linear, shape_of


@dataclass(frozen=True)
class FuseGateUpPass(ModulePass):
    """A gate and what it gates are one kernel: `f(x · u) * g(x · w)` reads x once.

    Two products join if they have one left operand and one shape, nothing but the second's kernel
    uses the first, and one tile of columns suits both ends.
    """

    name = "fuse-gate-up"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        function = find_function(op, "forward")
        if function is None:
            return
        groups = Groups.of(op)
        for call in calls_of(function):
            if call.parent is None or groups.called(call).anchor.data != "linear":
                continue
            following = users(call)
            if len(following) != 1 or not isinstance(user := following[0], nn.CallOp):
                continue
            if user.parent is call.parent and _joins(groups, call, user):
                groups.merge(call, user)
        groups.drop_unused()


def _joins(groups: Groups, first: nn.CallOp, second: nn.CallOp) -> bool:
    a, b = _products(groups, first), _products(groups, second)
    if not a or not b or len({shape_of(op) for op, _ in (*a, *b)}) != 1:
        return False
    if any(comes_from(value, first) for _, left in b for value in left):
        return False
    if len({left for _, left in (*a, *b)}) != 1:
        return False
    between = [op for x in second.xs for op in reshapes_to(x, set(first.ys)) or ()]
    ends = [*body_ops(groups.called(first)), *between, *body_ops(groups.called(second))]
    return bool(tile_counts(ends))


def _products(groups: Groups, call: nn.CallOp) -> list[tuple[Product, tuple[SSAValue, ...]]]:
    """Return a call's products, each with its left operands as the caller knows them."""
    group = groups.called(call)
    outside = dict(zip(group.body.block.args, call.xs, strict=True))
    found: list[tuple[Product, tuple[SSAValue, ...]]] = []
    for op in body_ops(group):
        if isinstance(op, quant.LinearOp | nn.DotGeneralOp) and is_linear(op):
            found.append((op, tuple(outside.get(x, x) for x in _left(op))))  # pyright: ignore
    return found


def _left(op: Operation) -> tuple[SSAValue, ...]:
    return (op.q, op.d, op.s) if isinstance(op, quant.LinearOp) else (op.operands[0],)
