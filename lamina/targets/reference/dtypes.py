"""Element types of the IR as NumPy dtypes, and constants as NumPy values."""

from __future__ import annotations

from typing import Any, cast

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import (
    BFloat16Type,
    DenseIntOrFPElementsAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    Signedness,
    TensorType,
)
from xdsl.ir import Attribute

from lamina.dialects.tile import element_of
from lamina.errors import LoweringError

Array = np.ndarray[Any, np.dtype[Any]]

_FLOATS: dict[type[Attribute], np.dtype[Any]] = {
    BFloat16Type: np.dtype(ml_dtypes.bfloat16),
    Float16Type: np.dtype(np.float16),
    Float32Type: np.dtype(np.float32),
    Float64Type: np.dtype(np.float64),
    IndexType: np.dtype(np.int64),
}


def dtype_of(type: Attribute) -> np.dtype[Any]:
    """Return the dtype of a scalar's, tensor's, vector's or memref's elements; `index` is int64."""
    element = _element(type)
    if isinstance(element, IntegerType):
        return _integer(cast("IntegerType[Any, Any]", element))
    if element.__class__ in _FLOATS:
        return _FLOATS[element.__class__]
    raise LoweringError(f"reference has no element type {element}")


def _element(type: Attribute) -> Attribute:
    if isinstance(type, TensorType):
        return cast("TensorType[Attribute]", type).get_element_type()
    return element_of(type)


def unsigned(x: Any) -> Any:
    """Return the same bits of an integer array or scalar as unsigned numbers."""
    return x.view(np.dtype(f"u{x.dtype.itemsize}")) if x.dtype.kind == "i" else x


def is_float(dtype: np.dtype[Any]) -> bool:
    """Tell whether `dtype` is a float, bfloat16 among them."""
    return dtype.kind == "f" or dtype == ml_dtypes.bfloat16


def constant(attribute: Attribute, type: Attribute) -> Any:
    """Return a number or dense attribute of this type as a NumPy scalar or array."""
    dtype = dtype_of(type)
    if isinstance(attribute, DenseIntOrFPElementsAttr):
        dense = cast("DenseIntOrFPElementsAttr[Any]", attribute)
        return _array(dense.get_values(), dtype).reshape(dense.get_shape())
    if isinstance(attribute, IntegerAttr):
        number = cast("IntegerAttr[Any]", attribute).value.data
        return _array((number,), dtype)[0]
    if isinstance(attribute, FloatAttr):
        return _array((cast("FloatAttr[Any]", attribute).value.data,), dtype)[0]
    raise LoweringError(f"reference cannot read the constant {attribute}")


def _array(numbers: tuple[int, ...] | tuple[float, ...], dtype: np.dtype[Any]) -> Array:
    if dtype.kind in "iu":
        bits, least = 8 * dtype.itemsize, np.iinfo(dtype).min
        return np.array([(int(n) - least) % (1 << bits) + least for n in numbers], dtype)
    return np.array(numbers, dtype)


def _integer(type: IntegerType[Any, Any]) -> np.dtype[Any]:
    width = type.width.data
    if width == 1:
        return np.dtype(np.bool_)
    if width not in (8, 16, 32, 64):
        raise LoweringError(f"reference has no element type {type}")
    sign = "u" if type.signedness.data == Signedness.UNSIGNED else "i"
    return np.dtype(f"{sign}{width // 8}")
