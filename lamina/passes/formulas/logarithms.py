"""Logarithms."""

from __future__ import annotations

from math import inf, nan

from xdsl.ir import SSAValue

from lamina.passes import polynomials as p
from lamina.passes.formulas.formula import Formula

_SMALLEST_NORMAL = 2.0**-126
_ROOT_HALF = 0x3F3504F3
"""The bits of sqrt(1/2)."""
_EXPONENT = -(1 << 23)
"""A mask of the sign and the exponent."""


def split(f: Formula, x: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Return k and z of a finite x = 2^k * z > 0 where z is in [sqrt 1/2, sqrt 2)."""
    tiny = f.compare("lt", x, _SMALLEST_NORMAL)
    bits = f.bits(f.select(tiny, f.mul(x, 2.0**23), x))
    above = f.minus(bits, _ROOT_HALF)
    k = f.add(f.to_float(f.right(above, 23, signed=True)), f.select(tiny, -23.0, 0.0))
    return k, f.from_bits(f.minus(bits, f.mask(above, _EXPONENT)))


def log(f: Formula, x: SSAValue) -> SSAValue:
    """ln x = k * ln 2 + ln z."""
    k, z = split(f, x)
    z = f.sub(z, 1.0)
    y = f.fma(k, p.LN2, f.fma(f.polynomial(z, p.LOG1P), f.mul(z, z), z))
    return _at_edges(f, x, y)


def log2(f: Formula, x: SSAValue) -> SSAValue:
    """log2 x = k + ln z / ln 2; exact for powers of two."""
    k, z = split(f, x)
    z = f.sub(z, 1.0)
    rest = f.mul(f.polynomial(z, p.LOG1P), f.mul(z, z))
    rest = f.fma(rest, p.INVERSE_LN2, f.mul(z, p.INVERSE_LN2_REST))
    return _at_edges(f, x, f.add(k, f.fma(z, p.INVERSE_LN2, rest)))


def log1p(f: Formula, x: SSAValue) -> SSAValue:
    """ln(1 + x) = ln u + (1 + x - u) / u, where u is 1 + x rounded; x where u is 1."""
    u = f.add(x, 1.0)
    lost = f.div(f.sub(x, f.sub(u, 1.0)), u)
    y = log(f, u)
    ordinary = f.both(f.compare("gt", u, 0.0), f.compare("lt", u, inf))
    y = f.select(ordinary, f.add(y, lost), y)
    return f.select(f.compare("eq", u, 1.0), x, y)


def _at_edges(f: Formula, x: SSAValue, y: SSAValue) -> SSAValue:
    """Return the logarithm `y` of x > 0; of infinity infinity, of 0 -infinity, below 0 NaN."""
    y = f.select(f.compare("lt", x, inf), y, x)
    edge = f.select(f.compare("eq", x, 0.0), -inf, nan)
    return f.select(f.compare("gt", x, 0.0), y, edge)
