"""The element types of ONNX tensors: names, elements in a graph, and NumPy forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import bf16, f16, f32, f64, i1, i8, i16, i32, i64
from xdsl.ir import Attribute

from lamina.dialects.tensors import ui8, ui16, ui32, ui64


@dataclass(frozen=True)
class Kind:
    """One element type: ONNX's `number` and `name`, the `element` of tensors, NumPy's `dtype`.

    `stored` says how weights of it are called (`PLAIN_DTYPES`); `bits` is 0 for strings.
    """

    number: int
    name: str
    stored: str
    element: Attribute | None
    dtype: np.dtype[Any]
    bits: int

    @property
    def is_text(self) -> bool:
        """Whether it has texts, which tensors hold as codes (`lamina.dialects.text_codes`)."""
        return self.bits == 0

    @property
    def is_float(self) -> bool:
        """Whether it has numbers with a point."""
        return "float" in self.name or self.name == "double"

    @property
    def is_integer(self) -> bool:
        """Whether it has whole numbers; bool is none."""
        return "int" in self.name

    @property
    def is_unsigned(self) -> bool:
        """Whether it has whole numbers from 0 on."""
        return self.name.startswith("uint")

    @property
    def code(self) -> str | None:
        """The name of its codes in `nn.encode`; None unless it is a float of a byte or less."""
        return _CODES.get(self.name)


_CODES: Final = {
    "float4e2m1": "f4e2m1fn",
    "float8e4m3fn": "f8e4m3fn",
    "float8e4m3fnuz": "f8e4m3fnuz",
    "float8e5m2": "f8e5m2",
    "float8e5m2fnuz": "f8e5m2fnuz",
}

_ROWS: Final[tuple[tuple[int, str, str, Attribute | None, Any, int], ...]] = (
    (1, "float", "f32", f32, np.float32, 32),
    (2, "uint8", "u8", ui8, np.uint8, 8),
    (3, "int8", "i8", i8, np.int8, 8),
    (4, "uint16", "u16", ui16, np.uint16, 16),
    (5, "int16", "i16", i16, np.int16, 16),
    (6, "int32", "i32", i32, np.int32, 32),
    (7, "int64", "i64", i64, np.int64, 64),
    (8, "string", "", None, np.object_, 0),
    (9, "bool", "bool", i1, np.bool_, 1),
    (10, "float16", "f16", f16, np.float16, 16),
    (11, "double", "f64", f64, np.float64, 64),
    (12, "uint32", "u32", ui32, np.uint32, 32),
    (13, "uint64", "u64", ui64, np.uint64, 64),
    (16, "bfloat16", "bf16", bf16, ml_dtypes.bfloat16, 16),
    (17, "float8e4m3fn", "", None, ml_dtypes.float8_e4m3fn, 8),
    (18, "float8e4m3fnuz", "", None, ml_dtypes.float8_e4m3fnuz, 8),
    (19, "float8e5m2", "", None, ml_dtypes.float8_e5m2, 8),
    (20, "float8e5m2fnuz", "", None, ml_dtypes.float8_e5m2fnuz, 8),
    (21, "uint4", "", None, ml_dtypes.uint4, 4),
    (22, "int4", "", None, ml_dtypes.int4, 4),
    (23, "float4e2m1", "", None, ml_dtypes.float4_e2m1fn, 4),
    (24, "float8e8m0", "", None, ml_dtypes.float8_e8m0fnu, 8),
    (25, "uint2", "", None, ml_dtypes.uint2, 2),
    (26, "int2", "", None, ml_dtypes.int2, 2),
)

KINDS: Final = {row[0]: Kind(*row[:4], np.dtype(row[4]), row[5]) for row in _ROWS}
"""Every element type by ONNX's number."""

BY_NAME: Final = {kind.name: kind for kind in KINDS.values()}
"""The same by ONNX's name."""

FLOAT, INT64, INT32, BOOL = BY_NAME["float"], BY_NAME["int64"], BY_NAME["int32"], BY_NAME["bool"]
"""Those that operators name most."""

STRING = BY_NAME["string"]
"""Texts."""

POWERS = BY_NAME["float8e8m0"]
"""Powers of 2, a byte each, which scale blocks."""

_BY_DTYPE: Final = {kind.dtype: kind for kind in KINDS.values()}


def kind_of_array(array: np.ndarray[Any, np.dtype[Any]]) -> Kind:
    """Return the element type of an array of plain elements."""
    return _BY_DTYPE[array.dtype]
