"""Hyperbolic sine and cosine, and the inverses of the hyperbolic functions."""

from __future__ import annotations

from math import nan

from xdsl.ir import SSAValue

from lamina.passes import polynomials as p
from lamina.passes.formulas.exponentials import half_exp
from lamina.passes.formulas.formula import Formula
from lamina.passes.formulas.logarithms import log, log1p

_LARGE = 2.0**14
"""From here on the square root of x^2 + 1 or x^2 - 1 is x for a logarithm's purposes."""


def sinh(f: Formula, x: SSAValue) -> SSAValue:
    """x + x^3 P(x^2) of |x| <= 1, else (e^|x| - e^-|x|) / 2 with the sign of x."""
    size, square = f.abs(x), f.mul(x, x)
    small = f.fma(f.mul(x, square), f.polynomial(square, p.SINH), x)
    half = half_exp(f, size)
    large = f.copysign(f.sub(half, f.div(0.25, half)), x)
    return f.select(f.compare("lt", size, 1.0), small, large)


def cosh(f: Formula, x: SSAValue) -> SSAValue:
    """(e^|x| + e^-|x|) / 2."""
    half = half_exp(f, f.abs(x))
    return f.add(half, f.div(0.25, half))


def asinh(f: Formula, x: SSAValue) -> SSAValue:
    """ln(1 + t + t^2 / (1 + sqrt(1 + t^2))) of t = |x|, with the sign of x."""
    size = f.abs(x)
    square = f.mul(size, size)
    root = f.sqrt(f.add(square, 1.0))
    small = log1p(f, f.add(size, f.div(square, f.add(root, 1.0))))
    return f.copysign(_or_double(f, size, small), x)


def acosh(f: Formula, x: SSAValue) -> SSAValue:
    """ln(1 + t + sqrt(t (t + 2))) of t = x - 1; NaN below 1."""
    t = f.sub(x, 1.0)
    small = log1p(f, f.add(t, f.sqrt(f.mul(t, f.add(t, 2.0)))))
    return f.select(f.compare("lt", x, 1.0), nan, _or_double(f, x, small))


def atanh(f: Formula, x: SSAValue) -> SSAValue:
    """ln(1 + 2 t / (1 - t)) / 2 of t = |x|, with the sign of x."""
    size = f.abs(x)
    ratio = f.div(f.add(size, size), f.sub(1.0, size))
    return f.copysign(f.mul(log1p(f, ratio), 0.5), x)


def _or_double(f: Formula, x: SSAValue, small: SSAValue) -> SSAValue:
    """Return `small`, or ln 2x of a large x."""
    large = f.add(log(f, x), p.LN2)
    return f.select(f.compare("lt", x, _LARGE), small, large)
