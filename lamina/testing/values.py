"""Draw the inputs of conformance cases: ordinary numbers, and those at which something breaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lamina.targets.reference.dtypes import Array, is_float

Draw = Callable[[np.random.Generator, np.dtype[Any], tuple[int, ...]], Array]
"""Return an array of this dtype and shape."""

_FINITE = (
    *(0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, 2.5, -2.5, 3.5, 62.5, 127.5, -128.5, 255.5, 300.0),
    *(32767.5, -40000.0, 65504.0, 8388609.0, 2147483648.0, -2147483648.0, 4294967296.0, -1e30),
    *(5.9604645e-08, -6e-8, 1.1754944e-38, 1e-40, -1e-42, 1.4e-45, 3.4028235e38),
)
_SPECIAL = (np.inf, -np.inf, np.nan)


def edges(rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """Return values of which half are extremes of the type: zeros, NaN, denormals, limits."""
    return _either(rng, normal(rng, dtype, shape), _extremes(dtype))


def normal(rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """Return standard normal floats, small integers, or coin tosses."""
    if dtype == np.bool_:
        return rng.random(shape) < 0.5
    if is_float(dtype):
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(-9, 10, shape).astype(dtype)


def anything(rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """Return integers of all bits by chance."""
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)


def gaps(rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """Return normal floats with a NaN or an infinity in one of eight."""
    x = normal(rng, dtype, shape)
    special = rng.choice(np.array(_SPECIAL).astype(dtype), shape)
    return np.where(rng.random(shape) < 0.125, special, x).astype(dtype)


def distinct(rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """Return zeros of both signs, ones, twos and NaN: many ties."""
    kinds = [0.0, -0.0, 1.0, 2.0, np.nan] if is_float(dtype) else [0, 1, 2]
    return rng.choice(np.array(kinds).astype(dtype), shape)


def angles(rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """Return angles of a few thousand radians, zeros, infinities and NaN."""
    x = (1000 * rng.standard_normal(shape)).astype(dtype)
    return _either(rng, x, np.array([0.0, -0.0, 1e-20, 1e4, *_SPECIAL]).astype(dtype))


def exponents(rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """Return shift distances: from below 0 to beyond the width."""
    return rng.integers(-1, 8 * dtype.itemsize + 2, shape).astype(dtype)


def unit(rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """Return floats in [-1, 1]."""
    return rng.uniform(-1, 1, shape).astype(dtype)


def near(mean: float, deviation: float) -> Draw:
    """Return what draws normal floats around `mean`."""

    def draw(rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        return rng.normal(mean, deviation, shape).astype(dtype)

    return draw


def below(size: int) -> Draw:
    """Return what draws whole numbers in [0, size)."""

    def draw(rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        return rng.integers(0, size, shape).astype(dtype)

    return draw


def always(value: float) -> Draw:
    """Return what draws one number everywhere."""

    def draw(rng: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
        return np.full(shape, value, dtype)

    return draw


def _extremes(dtype: np.dtype[Any]) -> Array:
    if dtype == np.bool_:
        return np.array([False, True])
    if is_float(dtype):
        with np.errstate(all="ignore"):
            return np.array([*_FINITE, *_SPECIAL]).astype(dtype)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return np.array([0, 1, 2, 7, low, high, low + 1, high // 2, -1 if low else high - 1], dtype)


def _either(rng: np.random.Generator, x: Array, extremes: Array) -> Array:
    shape: tuple[int, ...] = x.shape
    chosen = rng.random(shape) < 0.5
    return np.where(chosen, rng.choice(extremes, shape), x).astype(x.dtype)
