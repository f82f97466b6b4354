"""The numerics contract in NumPy: casts that saturate, one rounding an operation, exact fma."""

from __future__ import annotations

import typing
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np

from lamina.targets.reference.dtypes import Array, is_float, unsigned

BF16 = np.dtype(ml_dtypes.bfloat16)
F32 = np.dtype(np.float32)
F64 = np.dtype(np.float64)

_LOW_BITS = np.int64((1 << 28) - 1)
"""Of a float64 sum that lies halfway between two float32 values all of these are zero."""


def narrow(x: Any, dtype: np.dtype[Any]) -> Any:
    """Round float64 values to `dtype` once, to nearest even."""
    if dtype != BF16:
        return x.astype(dtype)
    single = x.astype(F32)
    return _sticky(single, x - single).astype(BF16)


def fma(a: Any, b: Any, c: Any) -> Any:
    """Return `a*b + c`, rounded once to the type of `c`; `a` and `b` are no wider than it."""
    if c.dtype == F64:
        return _exact(a.astype(F64), b.astype(F64), c)
    return fma_step(a.astype(F64), b.astype(F64), c)


def fma_step(a: Any, b: Any, c: Any) -> Any:
    """Return `fma(a, b, c)` of float64 copies `a` and `b` of numbers as narrow as `c`."""
    if c.dtype == F64:
        return _exact(a, b, c)
    product, addend = a * b, c.astype(F64)
    total = product + addend
    bits = np.asarray(total).view(np.int64)
    if c.dtype == F32 and bool((bits & _LOW_BITS).all()):
        return total.astype(F32)
    part = total - product
    error = (product - (total - part)) + (addend - part)
    return narrow(_sticky(total, error), c.dtype)


def tf32(x: Array) -> Array:
    """Return f32 of 10 bits of fraction, the nearest ones, of two the one away from 0."""
    bits = x.view(np.uint32)
    kept = np.where(np.isfinite(x), bits + np.uint32(0x1000), bits) & np.uint32(0xFFFFE000)
    return kept.astype(np.uint32).view(np.float32)


def choose(condition: Any, a: Any, b: Any) -> Any:
    """Return `a` where the condition holds and `b` elsewhere; of scalars, a scalar."""
    return typing.cast("Array", np.where(condition, a, b))[()]


def maximum(a: Any, b: Any) -> Any:
    """Return the larger one; NaN wins, and -0 is below +0."""
    return choose(a == b, choose(np.signbit(a), b, a), np.maximum(a, b))


def minimum(a: Any, b: Any) -> Any:
    """Return the smaller one; NaN wins, and -0 is below +0."""
    return choose(a == b, choose(np.signbit(a), a, b), np.minimum(a, b))


def divide(a: Any, b: Any) -> Any:
    """Return the quotient of signed integers, truncated; by zero it is 0, and it wraps."""
    quotient = np.floor_divide(a, b)
    inexact = (quotient * b != a) & (b != 0)
    return (quotient + (inexact & ((a < 0) != (b < 0)))).astype(a.dtype)


def remainder(a: Any, b: Any) -> Any:
    """Return the remainder of the truncated division, which has the sign of `a`; by zero, 0."""
    return choose(b == 0, a.dtype.type(0), a - divide(a, b) * b)


def cast(x: Any, dtype: np.dtype[Any], *, no_sign: bool = False) -> Any:
    """Convert elements to `dtype` as `tile.cast` does; `no_sign` reads integers as unsigned."""
    if is_float(x.dtype):
        return _from_float(x, dtype, no_sign)
    if is_float(dtype):
        number = unsigned(x) if no_sign else x
        return number.astype(dtype) if dtype == F32 else narrow(number.astype(F64), dtype)
    if dtype == np.bool_:
        return (x & x.dtype.type(1)).astype(np.bool_)
    return (unsigned(x) if no_sign else x).astype(dtype)


def _from_float(x: Any, dtype: np.dtype[Any], no_sign: bool) -> Any:
    if is_float(dtype):
        return narrow(x.astype(F64), dtype) if dtype == BF16 else x.astype(dtype)
    boolean = dtype == np.bool_
    no_sign = no_sign or boolean or dtype.kind == "u"
    width = 1 if boolean else 8 * dtype.itemsize
    low, high = (0, (1 << width) - 1) if no_sign else (-(1 << width - 1), (1 << width - 1) - 1)
    number = np.rint(x.astype(F64))
    above, below = number >= float(high + 1), number < float(low)
    inside = ~(above | below | np.isnan(number))
    wide = np.uint64 if no_sign else np.int64
    kept = np.where(inside, number, 0.0).astype(wide)
    result = np.where(above, wide(high), np.where(below, wide(low), kept))
    return result.astype(dtype)[()]


def _sticky(rounded: Any, error: Any) -> Any:
    """Make an inexact result odd, so that rounding it again gives what one rounding would.

    `rounded` is a value rounded to nearest and `error` what it lost. (Boldo and Melquiond,
    Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd, 2008.)
    """
    values = np.asarray(rounded)
    bits = values.view(np.dtype(f"i{values.dtype.itemsize}"))
    even = (error != 0) & ((bits & 1) == 0) & np.isfinite(rounded) & np.isfinite(error)
    outward = np.signbit(rounded) == (error < 0)
    moved = bits + np.where(outward, 1, -1).astype(bits.dtype)
    return np.where(even, moved, bits).view(values.dtype)[()]


def _exact(a: Any, b: Any, c: Any) -> Any:
    """`a*b + c` of float64 by way of rational numbers."""
    plain = a * b + c
    exact: Array = np.array(np.broadcast_to(plain, np.shape(plain)))
    a, b, c = np.broadcast_arrays(a, b, c)
    for place in np.ndindex(exact.shape):
        if not np.isfinite(exact[place]):
            continue
        total = Fraction(float(a[place])) * Fraction(float(b[place])) + Fraction(float(c[place]))
        exact[place] = float(total) if total else exact[place]
    return exact[()]
