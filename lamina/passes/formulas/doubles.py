"""Exponential, logarithm and what is made of them, of f64: within 2 units in the last place."""

from __future__ import annotations

from math import factorial, inf, nan
from typing import Final

from xdsl.ir import SSAValue

from lamina.passes.formulas.formula import Formula

_ROUND: Final = 1.5 * 2.0**52
"""Added to |x| < 2^51 it leaves x rounded to even in the low bits of the sum."""
_ROUND_BITS: Final = 0x4338 << 48
_INVERSE_LN2: Final = 1.4426950408889634
_LN2_HIGH: Final = 0.6931471803691238
_LN2_LOW: Final = 1.9082149292705877e-10
"""ln 2 as a sum, of which the first has 32 bits (fdlibm, Sun Microsystems 1993)."""

_EXP: Final = tuple(1 / factorial(n) for n in range(14))
"""e^x where |x| <= ln 2 / 2, to 2^-57."""
_ATANH: Final = tuple(2 / (2 * n + 3) for n in range(11))
"""(2 atanh(s) - 2 s) / s^3 in s^2, where |s| <= 0.1716, to 2^-57."""

_MANTISSA: Final = 52
_ROOT_HALF: Final = 0x3FE6A09E667F3BCD
"""The bits of sqrt(1/2)."""
_SMALLEST_NORMAL: Final = 2.0**-1022


def exp(f: Formula, x: SSAValue) -> SSAValue:
    """e^x = 2^n * e^r, with n = round(x / ln 2); 2^n is two powers, so that both are finite."""
    x = f.clamp(x, -746.0, 710.0)
    rounded = f.fma(x, _INVERSE_LN2, _ROUND)
    n = f.sub(rounded, _ROUND)
    r = f.fma(n, -_LN2_LOW, f.fma(n, -_LN2_HIGH, x))
    exponent = f.minus(f.bits(rounded), _ROUND_BITS)
    half = f.right(exponent, 1, signed=True)
    y = f.mul(f.polynomial(r, _EXP), _power(f, half))
    return f.mul(y, _power(f, f.minus(exponent, half)))


def _power(f: Formula, exponent: SSAValue) -> SSAValue:
    return f.from_bits(f.left(f.plus(exponent, 1023), _MANTISSA))


def log(f: Formula, x: SSAValue) -> SSAValue:
    """ln x = k ln 2 + ln z, with ln(1 + t) = t - t^2 / 2 + s (t^2 / 2 + R), s = t / (2 + t)."""
    tiny = f.compare("lt", x, _SMALLEST_NORMAL)
    bits = f.bits(f.select(tiny, f.mul(x, 2.0**54), x))
    above = f.minus(bits, _ROOT_HALF)
    k = f.to_float(f.right(above, _MANTISSA, signed=True))
    k = f.add(k, f.select(tiny, -54.0, 0.0))
    t = f.sub(f.from_bits(f.minus(bits, f.mask(above, -(1 << _MANTISSA)))), 1.0)
    s = f.div(t, f.add(t, 2.0))
    square, half = f.mul(s, s), f.mul(f.mul(t, t), 0.5)
    rest = f.mul(square, f.polynomial(square, _ATANH))
    low = f.fma(s, f.add(half, rest), f.mul(k, _LN2_LOW))
    y = f.fma(k, _LN2_HIGH, f.neg(f.sub(f.sub(half, low), t)))
    y = f.select(f.compare("lt", x, inf), y, x)
    edge = f.select(f.compare("eq", x, 0.0), -inf, nan)
    return f.select(f.compare("gt", x, 0.0), y, edge)


def rsqrt(f: Formula, x: SSAValue) -> SSAValue:
    """x^-0.5 = 1 / sqrt x."""
    return f.div(1.0, f.sqrt(x))


def sigmoid(f: Formula, x: SSAValue) -> SSAValue:
    """1 / (1 + e^-x), and e^x / (1 + e^x) of x < 0: the power is at most 1."""
    power = exp(f, f.neg(f.abs(x)))
    above = f.select(f.compare("lt", x, 0.0), power, 1.0)
    return f.div(above, f.add(power, 1.0))
