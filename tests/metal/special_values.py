"""Values of each element type at which arithmetic is most likely wrong."""

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np

DTYPES: dict[str, Any] = {
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
}

_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 0.3, -7.3, 127.5, 128.0, 255.5, -129.0)
_FLOATS += (1000.25, 32767.5, 65504.0, -65520.0, 2.0**31, -(2.0**31), 2.0**32, 2.0**63, -(2.0**63))
_FLOATS += (2.0**64, 3e38, 1e-38, -6e-8, 1e-40, 5.9e-5, float("inf"), float("-inf"), float("nan"))

_INTEGERS = (0, 1, -1, 2, 3, 7, -8, 31, 32, 33, 63, 64, 100, 127, -128, 255, 256, 32767, -32768)
_INTEGERS += (65535, 65537, 2**24 + 1, 2**24 + 3, 2**25 - 1, 2**31 - 1, -(2**31), 2**31, 2**32 - 1)
_INTEGERS += (2**40 + 2**16 + 1, 2**53 + 1, 2**63 - 1, -(2**63), 0x7F80_8001, -0x7F80_8001)


def values(kind: str) -> np.ndarray:
    """The special values that a type holds, each once, and some at random."""
    dtype, random = np.dtype(DTYPES[kind]), np.random.default_rng(7)
    if kind == "i1":
        return np.array([False, True])
    if kind.startswith("i"):
        numbers = np.array(_INTEGERS, np.int64)
        more = random.integers(-(2**63), 2**63 - 1, 8, np.int64)
        return np.unique(np.concatenate([numbers, more]).astype(dtype))
    with np.errstate(over="ignore"):
        numbers = np.array([*_FLOATS, *random.normal(0, 3, 8)]).astype(dtype)
    bits = numbers.view(f"u{dtype.itemsize}")
    return numbers[np.unique(bits, return_index=True)[1]]


def pairs(kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All pairs of special values, and a third value for each that is drawn from them."""
    known = values(kind)
    a, b = (np.array(side, known.dtype) for side in zip(*product(known, known), strict=True))
    return a, b, np.random.default_rng(9).choice(known, len(a))
