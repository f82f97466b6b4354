"""Write the primitives that a composite is spelt in, marked with the node it came from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    FloatAttr,
    IntegerAttr,
    TensorType,
    f32,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents

SOURCE = "lamina.src"
"""The attribute that names the nodes of the model an operation came from."""


class Spelling:
    """The operations that take the place of `op`: inserted before it, with its source."""

    def __init__(self, op: Operation, rewriter: PatternRewriter) -> None:
        self._op = op
        self._rewriter = rewriter
        self._source = op.attributes.get(SOURCE)

    def add(self, op: Operation) -> SSAValue:
        """Insert `op` and return its first result."""
        if self._source is not None:
            op.attributes[SOURCE] = self._source
        return self._rewriter.insert(op).results[0]

    def finish(self, *results: SSAValue) -> None:
        """Put `results` in place of those of the composite, and remove it."""
        self._rewriter.replace(self._op, (), results)

    def fill(self, value: float, type: Attribute) -> SSAValue:
        """Return a constant of this tensor type with one value everywhere."""
        element = cast("TensorType[Any]", type).get_element_type()
        if isinstance(element, AnyFloat):
            return self.add(nn.ConstantOp(FloatAttr(value, element), type))
        return self.add(nn.ConstantOp(IntegerAttr(int(value), element), type))

    def scaled(self, x: SSAValue, factor: float) -> SSAValue:
        """Return `x * factor`."""
        return self.add(nn.MulOp(x, self.fill(factor, x.type)))

    def shifted(self, x: SSAValue, addend: float) -> SSAValue:
        """Return `x + addend`."""
        return self.add(nn.AddOp(x, self.fill(addend, x.type)))

    def cast(self, x: SSAValue, to: Attribute) -> SSAValue:
        """Return `x` with elements of type `to`; the same type is free."""
        return x if nn.element(x) == to else self.add(nn.CastOp(x, to))

    def wide(self, x: SSAValue) -> SSAValue:
        """Return `x` in f32 if it is narrower: a composite rounds to its own type once."""
        return self.cast(x, f32) if isinstance(nn.element(x), Float16Type | BFloat16Type) else x

    def reshape(self, x: SSAValue, shape: Sequence[Dim | int]) -> SSAValue:
        """Return `x` under another shape; the same shape is free."""
        if extents(x.type) == tuple(map(Dim.of, shape)):
            return x
        return self.add(nn.ReshapeOp(x, shape))

    def broadcast(self, x: SSAValue, dims: Sequence[int], shape: Sequence[Dim | int]) -> SSAValue:
        """Return `x` repeated to `shape`, its dimension i at `dims[i]`; the same shape is free."""
        if extents(x.type) == tuple(map(Dim.of, shape)):
            return x
        return self.add(nn.BroadcastOp(x, dims, shape))
