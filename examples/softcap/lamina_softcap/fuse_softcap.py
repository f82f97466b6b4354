"""Recognise a soft cap in its parts, as importers write it, and make it one operation."""

from __future__ import annotations

from dataclasses import dataclass
from math import isclose
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import FloatAttr, ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from lamina.dialects import nn
from lamina.passes.functions import find_function
from lamina.passes.rewriting import erase_unused, replace_with
from lamina_softcap.dialect import SoftcapOp


@dataclass(frozen=True)
class FuseSoftcapPass(ModulePass):
    """`cap * tanh(x / cap)` is `acme.softcap`, whichever way the division is written."""

    name = "fuse-softcap"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        function = find_function(op, "forward")
        if function is None:
            return
        block = function.body.block
        for each in list(block.ops):
            if isinstance(each, nn.MulOp) and (found := match_softcap(each)) is not None:
                replace_with(each, [new := SoftcapOp(*found)], [new.y])
        erase_unused(block)


def match_softcap(op: nn.MulOp) -> tuple[SSAValue, float] | None:
    """Match `cap * tanh(x / cap)`: return x and the cap."""
    for part, factor in ((op.a, op.b), (op.b, op.a)):
        cap = _fill(factor)
        if cap is None or not 0.0 < cap < float("inf") or not isinstance(part.owner, nn.TanhOp):
            continue
        inner = part.owner.x.owner
        if isinstance(inner, nn.DivOp) and _fill(inner.b) == cap:
            return inner.a, cap
        if isinstance(inner, nn.MulOp):
            for x, inverse in ((inner.a, _fill(inner.b)), (inner.b, _fill(inner.a))):
                if inverse is not None and isclose(inverse * cap, 1.0, rel_tol=1e-7):
                    return x, cap
    return None


def _fill(value: SSAValue) -> float | None:
    """Return the number that a constant has everywhere."""
    constant = value.owner
    if not isinstance(constant, nn.ConstantOp) or not isinstance(constant.value, FloatAttr):
        return None
    return cast("FloatAttr[Any]", constant.value).value.data
