"""The constants of a kernel's formulas: each value once, at the head of the kernel."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    VectorType,
    f32,
    f64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from lamina.dialects import tile

_LARGEST = 1e6
"""From here on the text of a whole number in a dense constant would not be read back equal."""


class Constants:
    """Makes constants before the first operation of `entry`, one for each value and type."""

    def __init__(self, entry: Block) -> None:
        self._entry = entry
        self._first = entry.first_op
        self._known: dict[tuple[str, Attribute], SSAValue] = {}

    def get(self, value: float, type: Attribute) -> SSAValue:
        """Return `value` in every element of a scalar or vector of f32, f64, i32 or i64."""
        key = (repr(value), type)
        if key not in self._known:
            self._known[key] = self._make(value, type)
        return self._known[key]

    def _make(self, value: float, type: Attribute) -> SSAValue:
        element, shape = tile.element_of(type), tile.shape_of(type)
        if not shape:
            return self._add(arith.ConstantOp(_scalar(value, element)))
        if element in (f32, f64) and not abs(value) < _LARGEST:
            return self._add(tile.SplatOp(self.get(value, element), shape))
        return self._add(arith.ConstantOp(_dense(value, element, shape)))

    def _add(self, op: Operation) -> SSAValue:
        if self._first is None:
            self._entry.add_op(op)
        else:
            self._entry.insert_op_before(op, self._first)
        return op.results[0]


def _dense(value: float, element: Attribute, shape: Sequence[int]) -> DenseIntOrFPElementsAttr[Any]:
    type: Any = VectorType(cast("Any", element), shape)
    return DenseIntOrFPElementsAttr.from_list(type, [_scalar(value, element).value.data])


def _scalar(value: float, element: Attribute) -> Any:
    if element == f64:
        return FloatAttr(float(value), f64)
    if element == f32:
        return FloatAttr(_single(value), f32)
    return IntegerAttr(int(value), cast("Any", element))


def _single(value: float) -> float:
    """Return the nearest float32 value."""
    return struct.unpack("f", struct.pack("f", value))[0] if math.isfinite(value) else value
