"""One rounding for each result: to nearest, to zero, up or down, and fused multiply-adds."""

from __future__ import annotations

from typing import Any

import numpy as np

from lamina.targets.reference import numerics
from lamina.targets.reference.dtypes import Array
from lamina.targets.reference.numerics import choose
from lamina.testing.ptx.scalars import BF16

MODES = ("rn", "rz", "rm", "rp", "rna")
"""Nearest even, towards zero, down, up, nearest with ties away from zero."""

_F32 = np.dtype(np.float32)
_F64 = np.dtype(np.float64)
_LOW = np.int64((1 << 28) - 1)
_NAN = {
    np.dtype(np.float16): np.array(0x7FFF, np.uint16).view(np.float16),
    BF16: np.array(0x7FFF, np.uint16).view(BF16),
    _F32: np.array(0x7FFFFFFF, np.uint32).view(np.float32),
}


def canonical(x: Array) -> Array:
    """Return floats with every NaN replaced by the one that hardware gives; f64 keeps its own."""
    nan = np.isnan(x)
    if x.dtype not in _NAN or not nan.any():
        return x
    return choose(nan, _NAN[x.dtype], x)


def flushed(x: Any) -> Any:
    """Return f32 numbers with subnormal ones replaced by zeros of their sign."""
    small = np.abs(x) < np.finfo(np.float32).tiny
    return choose(small, np.copysign(np.float32(0), x), x) if np.any(small) else x


def odd(value: Any, error: Any) -> Any:
    """Make an inexact float64 odd: rounding it again gives what one rounding would.

    `error` has the sign of what `value`, rounded to nearest, lost. (Boldo and Melquiond,
    Emulation of FMA and correctly rounded sums, 2008.)
    """
    value = np.asarray(value, _F64)
    bits = value.view(np.int64)
    even = (error != 0) & (bits & 1 == 0) & np.isfinite(value) & np.isfinite(error)
    if not even.any():
        return value
    moved = bits + choose(np.signbit(value) == (error < 0), 1, -1)
    return choose(even, moved, bits).view(_F64)


def sum_of(a: Any, b: Any) -> Any:
    """Return the sum of float64 numbers, made odd where it is inexact."""
    total = a + b
    part = total - a
    return odd(total, (a - (total - part)) + (b - part))


def fused(a: Any, b: Any, c: Any, mode: str) -> Any:
    """Return a·b + c of numbers of one type, rounded once to it."""
    if c.dtype == _F64:
        return numerics.fma(a, b, c)
    product, addend = a.astype(_F64) * b.astype(_F64), c.astype(_F64)
    total = np.asarray(product + addend)
    if mode == "rn" and c.dtype == _F32 and bool((total.view(np.int64) & _LOW).all()):
        return total.astype(_F32)
    exact = sum_of(product, addend)
    return rounded(exact, mode) if c.dtype == _F32 else numerics.narrow(exact, c.dtype)


def rounded(x: Any, mode: str, dtype: np.dtype[Any] = _F32) -> Any:
    """Round float64 numbers to f16, bf16 or f32 in a mode."""
    x = np.asarray(x)
    near: Array = numerics.narrow(x, dtype)
    if mode == "rn":
        return near
    back = near.astype(_F64)
    if mode == "rna":
        return _ties_away(x, near, back)
    outward = {
        "rz": np.abs(back) > np.abs(x),
        "rm": back > x,
        "rp": back < x,
    }[mode]
    outward &= np.isfinite(x)
    return choose(outward, _neighbour(near, up=mode == "rp", inward=mode == "rz"), near)


def _ties_away(x: Array, near: Array, back: Array) -> Array:
    outer = _step(near, 1)
    halfway = (np.abs(back) < np.abs(x)) & (
        np.abs(x) * 2 == np.abs(back) + np.abs(outer.astype(_F64))
    )
    return choose(halfway, outer, near)


def _neighbour(x: Array, *, up: bool, inward: bool) -> Array:
    if inward:
        return _step(x, -1)
    smaller = np.signbit(x) == up
    return choose(smaller, _step(x, -1), _step(x, 1))


def _step(x: Array, by: int) -> Array:
    """Return the next number of larger (1) or smaller (-1) magnitude."""
    raw = np.dtype(f"i{x.dtype.itemsize}")
    return (np.ascontiguousarray(x).view(raw) + raw.type(by)).view(x.dtype)
