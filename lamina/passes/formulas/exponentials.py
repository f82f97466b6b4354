"""Exponentials, and the functions that are made of them."""

from __future__ import annotations

from xdsl.ir import SSAValue

from lamina.passes import polynomials as p
from lamina.passes.formulas.formula import Formula

NONPOSITIVE = "lamina.nonpositive"
"""Asserts of a `math.exp` that no operand is above 0; what is below 2^-126 may then become 0."""

_BIASED = p.ROUND + 127.0
"""A sum with it has, in its low bits, the exponent field of a power of two."""


def exp(f: Formula, x: SSAValue) -> SSAValue:
    """e^x = (2^m)^2 * e^r, with m = round(x / (2 ln 2)) and r = x - 2m ln 2.

    Both products by 2^m are exact but for the last one's overflow or gradual underflow.
    """
    power, scale = _scaled_power(f, f.clamp(x, -104.0, 89.0))
    return f.mul(f.mul(power, scale), scale)


def half_exp(f: Formula, x: SSAValue) -> SSAValue:
    """e^x / 2 of x >= 0, which has numbers where e^x has none any more."""
    power, scale = _scaled_power(f, f.at_most(x, 90.0))
    return f.mul(f.mul(f.mul(power, 0.5), scale), scale)


def _scaled_power(f: Formula, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Return e^r and 2^m."""
    rounded = f.fma(x, p.INVERSE_LN2 / 2, _BIASED)
    m = f.sub(rounded, _BIASED)
    r = f.fma(m, -2 * p.LN2_LOW, f.fma(m, -2 * p.LN2_HIGH, x))
    return f.polynomial(r, p.EXP), f.power_of_two(rounded)


def decay(f: Formula, x: SSAValue) -> SSAValue:
    """e^x of x <= 0, 0 below 2^-126.5: the bits of 2^-127 are those of 0."""
    x = f.at_least(x, -127 * p.LN2)
    rounded = f.fma(x, p.INVERSE_LN2, _BIASED)
    n = f.sub(rounded, _BIASED)
    r = f.fma(n, -p.LN2_LOW, f.fma(n, -p.LN2_HIGH, x))
    return f.mul(f.polynomial(r, p.EXP_SHORT), f.power_of_two(rounded))


def exp2(f: Formula, x: SSAValue) -> SSAValue:
    """2^x = 2^n * 2^(x - n), with n = round(x); exact for whole numbers."""
    x = f.clamp(x, -151.0, 129.0)
    rounded = f.add(x, _TWICE_BIASED)
    rest = f.sub(x, f.sub(rounded, _TWICE_BIASED))
    return scaled(f, f.polynomial(rest, p.EXP2), rounded)


_TWICE_BIASED = p.ROUND + 254.0


def scaled(f: Formula, y: SSAValue, rounded: SSAValue) -> SSAValue:
    """Return `y * 2^n` of a sum n + 254 + ROUND: by 2^floor(n / 2), then by 2^ceil(n / 2)."""
    first, second = _halves(f, rounded)
    return f.mul(f.mul(y, first), second)


def _halves(f: Formula, rounded: SSAValue) -> tuple[SSAValue, SSAValue]:
    bits = f.bits(rounded)
    half = f.right(bits, 1, signed=False)
    return f.from_bits(f.left(half, 23)), f.from_bits(f.left(f.minus(bits, half), 23))


def expm1(f: Formula, x: SSAValue) -> SSAValue:
    """e^x - 1 = 2^n * (e^r - 1) + (2^n - 1), halved until the end so that 2^n is finite."""
    x = f.clamp(x, -20.0, 89.0)
    biased = p.ROUND + 126.0
    rounded = f.fma(x, p.INVERSE_LN2, biased)
    n = f.sub(rounded, biased)
    r = f.fma(n, -p.LN2_LOW, f.fma(n, -p.LN2_HIGH, x))
    small = f.mul(r, f.fma(f.polynomial(r, p.EXPM1), r, 1.0))
    half = f.power_of_two(rounded)
    y = f.fma(half, small, f.sub(half, 0.5))
    return f.select(f.compare("eq", n, 0.0), small, f.add(y, y))


def sigmoid(f: Formula, x: SSAValue) -> SSAValue:
    """q / (q + e^r), with q = 2^round(x / ln 2) and r = ln q - x.

    The power has a sum's rounding only: e^r - 1 is added to what is small of 1 + q, then the rest.
    """
    x = f.clamp(x, -104.0, 20.0)
    rounded = f.fma(x, p.INVERSE_LN2, _TWICE_BIASED)
    n = f.sub(rounded, _TWICE_BIASED)
    r = f.fma(n, p.LN2_LOW, f.fma(n, p.LN2_HIGH, f.neg(x)))
    first, second = _halves(f, rounded)
    q = f.mul(first, second)
    slope = f.fma(f.polynomial(r, p.EXPM1), r, 1.0)
    below = f.add(f.at_least(f.add(q, 0.5), 1.0), f.fma(r, slope, f.at_most(q, 0.5)))
    return f.mul(f.div(first, below), second)


def tanh(f: Formula, x: SSAValue) -> SSAValue:
    """x * P(x^2) for small |x|, else sign(x) * (1 - 2 / (e^(2|x|) + 1))."""
    size = f.at_most(f.abs(x), p.TANH_LARGE)
    small = f.mul(x, f.polynomial(f.mul(x, x), p.TANH))
    rounded = f.fma(size, 2 * p.INVERSE_LN2, _BIASED)
    rest = f.fma(size, 2 * p.INVERSE_LN2, f.sub(_BIASED, rounded))
    power = f.mul(f.polynomial(rest, p.EXP2), f.power_of_two(rounded))
    large = f.sub(1.0, f.div(2.0, f.add(power, 1.0)))
    return f.select(f.compare("lt", size, p.TANH_SMALL), small, f.copysign(large, x))


def erf(f: Formula, x: SSAValue) -> SSAValue:
    """x + x * P(x^2) for small |x|, else sign(x) * (1 - 2^(|x| * Q(|x|)))."""
    size = f.at_most(f.abs(x), p.ERF_LARGE)
    small = f.fma(f.polynomial(f.mul(x, x), p.ERF), x, x)
    power = f.mul(size, f.polynomial(size, p.ERFC_LOG2))
    rounded = f.add(power, _BIASED)
    rest = f.sub(power, f.sub(rounded, _BIASED))
    rest = f.mul(f.polynomial(rest, p.EXP2_SHORT), f.power_of_two(rounded))
    large = f.copysign(f.sub(1.0, rest), x)
    return f.select(f.compare("lt", size, p.ERF_SMALL), small, large)
