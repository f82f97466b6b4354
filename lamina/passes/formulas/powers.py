"""Powers and roots."""

from __future__ import annotations

from math import inf, nan

from xdsl.ir import SSAValue

from lamina.passes import polynomials as p
from lamina.passes.formulas.exponentials import scaled
from lamina.passes.formulas.formula import Formula
from lamina.passes.formulas.logarithms import split

_TWICE_BIASED = p.ROUND + 254.0
_LARGEST = 200.0
"""A bound of exponents beyond which every power of two overflows or vanishes."""

Pair = tuple[SSAValue, SSAValue]
"""A number as the unevaluated sum of two, the second small beside the first."""


def rsqrt(f: Formula, x: SSAValue) -> SSAValue:
    """x^-0.5 = 1 / sqrt x."""
    return f.div(1.0, f.sqrt(x))


def powf(f: Formula, x: SSAValue, y: SSAValue) -> SSAValue:
    """|x|^y = 2^(y * log2 |x|), the logarithm in two floats; signs and edges as IEEE 754 pow."""
    size = f.abs(x)
    high, low = _log2(f, size)
    high = f.select(f.compare("lt", size, inf), high, size)
    high = f.select(f.compare("eq", size, 0.0), -inf, high)
    exponent = f.mul(y, high)
    rest = f.fma(y, low, f.fma(y, high, f.neg(exponent)))
    rest = f.select(f.compare("lt", f.abs(exponent), _LARGEST), rest, 0.0)
    return _edges(f, x, y, size, _exp2(f, f.clamp(exponent, -_LARGEST, _LARGEST), rest))


def _log2(f: Formula, x: SSAValue) -> Pair:
    """log2 x = k + (2 atanh u) / ln 2, with u = (z - 1) / (z + 1)."""
    k, z = split(f, x)
    above, below = f.add(z, 1.0), f.sub(z, 1.0)
    lost = f.sub(z, f.sub(above, 1.0))
    inverse = f.div(1.0, above)
    u = f.mul(below, inverse)
    u_low = f.fma(f.neg(u), above, below)
    u_low = f.mul(inverse, f.fma(f.neg(u), lost, u_low))
    square = f.mul(u, u)
    high = f.mul(u, 2 * p.INVERSE_LN2)
    low = f.fma(u, 2 * p.INVERSE_LN2, f.neg(high))
    low = f.fma(u, 2 * p.INVERSE_LN2_REST, low)
    low = f.fma(u_low, 2 * p.INVERSE_LN2, low)
    low = f.fma(f.mul(u, square), f.polynomial(square, p.LOG2_RATIO), low)
    total, rest = _sum(f, k, high)
    return _sum(f, total, f.add(rest, low))


def _sum(f: Formula, a: SSAValue, b: SSAValue) -> Pair:
    """Return a + b where |a| >= |b| or a is 0, and what the sum lost (Dekker 1971)."""
    total = f.add(a, b)
    return total, f.sub(b, f.sub(total, a))


def _exp2(f: Formula, x: SSAValue, low: SSAValue) -> SSAValue:
    rounded = f.add(x, _TWICE_BIASED)
    rest = f.add(f.sub(x, f.sub(rounded, _TWICE_BIASED)), low)
    return scaled(f, f.polynomial(rest, p.EXP2), rounded)


def _edges(f: Formula, x: SSAValue, y: SSAValue, size: SSAValue, power: SSAValue) -> SSAValue:
    """Return x^y of `power` = |x|^y."""
    half, floor = f.mul(y, 0.5), f.floor(y)
    odd = f.both(f.compare("eq", floor, y), f.compare("ne", f.floor(half), half))
    power = f.select(odd, f.copysign(power, x), power)
    below = f.both(f.compare("lt", x, 0.0), f.compare("lt", size, inf))
    power = f.select(f.both(below, f.compare("ne", floor, y)), nan, power)
    endless = f.both(f.compare("eq", size, 1.0), f.compare("eq", f.abs(y), inf))
    power = f.select(endless, 1.0, power)
    power = f.select(f.compare("eq", y, 0.0), 1.0, power)
    return f.select(f.compare("eq", x, 1.0), 1.0, power)
