"""What is plain of a vector of integers that a graph computes, by what it was put together of."""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IntegerAttr
from xdsl.ir import SSAValue

from lamina.dialects import nn
from lamina.dialects.dims import Dim, parse_dim, product
from lamina.dialects.tensors import extents
from lamina.frontend.onnx.values import Tensor


def told(x: Tensor) -> list[Dim | None]:
    """Return the elements that are numbers or extents whatever is computed; None for others."""
    return _told(x.value)


def _told(value: SSAValue) -> list[Dim | None]:
    op, count = value.owner, product(extents(value.type)).constant or 0
    found: list[Dim | None] = []
    if isinstance(op, nn.ConstantOp):
        if isinstance(op.value, DenseIntOrFPElementsAttr):
            found = [Dim.of(int(n)) for n in cast("tuple[Any, ...]", op.value.get_values())]
        elif isinstance(op.value, IntegerAttr):
            found = [Dim.of(op.value.value.data)] * count
    elif isinstance(op, nn.ExtentsOp):
        found = [parse_dim(each.data) for each in op.dims]
    elif isinstance(op, nn.ReshapeOp):
        found = _told(op.operands[0])
    elif isinstance(op, nn.ConcatOp) and len(extents(value.type)) == 1:
        found = [each for part in op.operands for each in _told(part)]
    return found if len(found) == count else [None] * count
