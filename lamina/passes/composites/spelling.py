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
from lamina.dialects.tensors import extents, tensor
from lamina.passes.rewriting import inherit_source


class Spelling:
    """The operations that take the place of `op`: inserted before it, with its source."""

    def __init__(self, op: Operation, rewriter: PatternRewriter) -> None:
        self._op = op
        self._rewriter = rewriter

    def add(self, op: Operation) -> SSAValue:
        """Insert `op` and return its first result."""
        inherit_source([op], [self._op])
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

    def reduce(self, x: SSAValue, kind: str, dims: Sequence[int]) -> SSAValue:
        """Return `x` reduced over dimensions."""
        return self.add(nn.ReduceOp(x, kind, dims))

    def along(self, x: SSAValue, like: SSAValue, axis: int) -> SSAValue:
        """Return `x`, reduced over `axis`, repeated along it to the shape of `like`."""
        shape = extents(like.type)
        return self.broadcast(x, [d for d in range(len(shape)) if d != axis], shape)

    def extent(self, dim: Dim, type: Attribute) -> SSAValue:
        """Return an extent as a number in every element of a tensor type."""
        if dim.constant is not None:
            return self.fill(dim.constant, type)
        element = cast("TensorType[Any]", type).get_element_type()
        ones = self.fill(1, tensor(element, [dim]))
        return self.broadcast(self.reduce(ones, "add", [0]), [], extents(type))

    def mean(self, x: SSAValue) -> SSAValue:
        """Return the mean over the last dimension."""
        last = len(extents(x.type)) - 1
        total = self.reduce(x, "add", [last])
        return self.add(nn.DivOp(total, self.extent(extents(x.type)[last], total.type)))
