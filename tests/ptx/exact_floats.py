"""Draw floats, special values among them, and round exact numbers."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np

BF16 = np.dtype(ml_dtypes.bfloat16)
SPECIAL = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, 3.0, -7.25, 1e-8, 6e-8, 65504.0, 1e-3, 3.14159265),
    *(1e-40, -1e-42, 1.1754944e-38, 3.4028235e38, -3e38, 1e30, math.inf, -math.inf, math.nan),
)


def draw(dtype: str | np.dtype, seed: int, count: int = 256) -> np.ndarray:
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore"):
        special = np.array(SPECIAL).astype(dtype)
        normal = (rng.standard_normal(count) * 10.0 ** rng.integers(-4, 4, count)).astype(dtype)
    return np.where(rng.random(count) < 0.5, rng.choice(special, count), normal).astype(dtype)


def same(y: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether bits agree; a NaN is the one that hardware gives."""
    raw = np.dtype(f"u{y.itemsize}")
    one = {4: 0x7FFFFFFF, 2: 0x7FFF}.get(y.itemsize)
    bits = wanted.view(raw).copy()
    nan = np.isnan(wanted.astype("f4"))
    if one is None:
        return bool(((y.view(raw) == bits) | (nan & np.isnan(y))).all())
    bits[nan] = one
    return bool((y.view(raw) == bits).all())


def rounded(exact: Fraction, mode: str) -> float:
    """An exact number as f32, in a rounding mode; zero is not given."""
    exponent = math.floor(math.log2(abs(exact))) - 26
    while abs(exact) >= Fraction(2) ** (exponent + 24):
        exponent += 1
    step = Fraction(2) ** max(exponent, -149)
    quotient = exact / step
    whole = {
        "rn": round,
        "rz": math.trunc,
        "rm": math.floor,
        "rp": math.ceil,
    }[mode](quotient)
    value = whole * step
    if abs(value) >= 2**128:
        largest = float(np.finfo("f4").max)
        inward = mode == "rz" or (mode == "rm" and value > 0) or (mode == "rp" and value < 0)
        return math.copysign(largest if inward else math.inf, value)
    return float(value)
