"""Spell convolutions in simpler ones, and those of a single place as products."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import AnyFloat, ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass

from lamina.dialects import nn
from lamina.dialects.tensors import extents
from lamina.dialects.tile import values
from lamina.passes.decompose_composites import decompose_in
from lamina.passes.functions import find_function, operations_in
from lamina.passes.rewriting import replace_with


@dataclass(frozen=True)
class DecomposeConvolutionsPass(ModulePass):
    """No convolution is transposed, no pool is of powers, and none of floats has a window of 1.

    conv(x, w) -> dot(x, w) where each window is one place, without strides, pads or groups.
    """

    name = "decompose-convolutions"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        function = find_function(op, "forward")
        if function is None:
            return
        decompose_in(function, keep=(), only=("nn.conv_transpose", "nn.pool"))
        for each in operations_in(function):
            if isinstance(each, nn.ConvOp) and _is_product(each):
                _multiply(each)


def _is_product(op: nn.ConvOp) -> bool:
    ones = (*op.window, *values(op.strides), op.groups.value.data)
    floats = all(isinstance(nn.element(value), AnyFloat) for value in (op.x, op.w))
    plain = set(ones) == {1} and not any(values(op.pads)) and op.packed is None
    return plain and floats and nn.element(op.x) == nn.element(op.w)


def _multiply(op: nn.ConvOp) -> None:
    new: list[Operation] = []
    w, cast_to = op.w, None
    if isinstance(w.owner, nn.CastOp):
        # A weight that was cast stays small in memory.
        cast_to, w = nn.element(w), w.owner.x
    flat = nn.ReshapeOp(w, [op.outputs, op.depth])
    new.append(flat)
    w = flat.y
    if cast_to is not None:
        widened = nn.CastOp(w, cast_to)
        new.append(widened)
        w = widened.y
    dot = nn.DotGeneralOp(op.x, w, [(len(extents(op.x.type)) - 1, 1)])
    new.append(dot)
    y = dot.y
    if nn.element(y) != nn.element(op.y):
        narrowed = nn.CastOp(y, nn.element(op.y))
        new.append(narrowed)
        y = narrowed.y
    if extents(y.type) != extents(op.y.type):
        rows = nn.ReshapeOp(y, extents(op.y.type))
        new.append(rows)
        y = rows.y
    replace_with(op, new, [y])
