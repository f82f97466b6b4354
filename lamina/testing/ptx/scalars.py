"""PTX's types: how many bits each has, and which NumPy type computes on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

BF16 = np.dtype(ml_dtypes.bfloat16)
E4M3 = np.dtype(ml_dtypes.float8_e4m3fn)
E5M2 = np.dtype(ml_dtypes.float8_e5m2)

RAW: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.bool_),
    8: np.dtype(np.uint8),
    16: np.dtype(np.uint16),
    32: np.dtype(np.uint32),
    64: np.dtype(np.uint64),
}
"""The type in which a value of so many bits is stored."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A type: its name, bits, class (b, u, s, f or p), NumPy type, and how many are packed."""

    name: str
    bits: int
    kind: str
    dtype: np.dtype[Any]
    packed: int = 1

    @property
    def raw(self) -> np.dtype[Any]:
        """The unsigned integer of the same width."""
        return RAW[self.bits]

    @property
    def signed(self) -> bool:
        """Whether it is a signed integer."""
        return self.kind == "s"

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point type."""
        return self.kind == "f"


def _all() -> dict[str, Scalar]:
    found = {"pred": Scalar("pred", 1, "p", RAW[1])}
    for bits in (8, 16, 32, 64):
        found[f"b{bits}"] = Scalar(f"b{bits}", bits, "b", RAW[bits])
        found[f"u{bits}"] = Scalar(f"u{bits}", bits, "u", RAW[bits])
        found[f"s{bits}"] = Scalar(f"s{bits}", bits, "s", np.dtype(f"i{bits // 8}"))
    for name, bits, dtype in (
        ("f16", 16, np.dtype(np.float16)),
        ("bf16", 16, BF16),
        ("f32", 32, np.dtype(np.float32)),
        ("tf32", 32, np.dtype(np.float32)),
        ("f64", 64, np.dtype(np.float64)),
        ("e4m3", 8, E4M3),
        ("e5m2", 8, E5M2),
    ):
        found[name] = Scalar(name, bits, "f", dtype)
    for name, bits in (("f16", 32), ("bf16", 32), ("f32", 64), ("e4m3", 16), ("e5m2", 16)):
        found[f"{name}x2"] = Scalar(f"{name}x2", bits, "f", found[name].dtype, 2)
    found["u16x2"] = Scalar("u16x2", 32, "u", RAW[16], 2)
    found["s16x2"] = Scalar("s16x2", 32, "s", np.dtype(np.int16), 2)
    return found


SCALARS: dict[str, Scalar] = _all()
"""Every type by its name without the dot."""
