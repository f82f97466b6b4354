"""Activations as one formula each: shorter than the chains of functions that they are made of.

Errors are within 1e-6 of the result, or of 1; of -infinity they are NaN, as 0 * infinity is.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from lamina.passes import polynomials as p
from lamina.passes.formulas.exponentials import exp
from lamina.passes.formulas.formula import Formula
from lamina.passes.formulas.logarithms import log1p

_BIASED = p.ROUND + 127.0
_ZERO, _INFINITY = -127.0, 128.0
"""Exponents whose powers of two are 0 and infinity, where they are made of bits."""

_ALTERNATING = tuple(-c if n % 2 else c for n, c in enumerate(p.EXP_SHORT))
"""e^-x where |x| <= ln 2 / 2."""

_TANH_SLOPE = -2 * 0.7978845608028654 / p.LN2
_TANH_CUBIC = _TANH_SLOPE * 0.044715
"""-2 / ln 2 times the factors of x and x^3 in the tanh form (Hendrycks and Gimpel 2016)."""


def silu(f: Formula, x: SSAValue) -> SSAValue:
    """x / (1 + 2^n * e^-r), with n = round(-x / ln 2) and r = x + n ln 2."""
    within = f.clamp(x, -_INFINITY * p.LN2, -_ZERO * p.LN2)
    rounded = f.fma(within, -p.INVERSE_LN2, _BIASED)
    r = f.fma(f.sub(rounded, _BIASED), p.LN2, within)
    power = f.polynomial(r, _ALTERNATING)
    return f.div(x, f.fma(power, f.power_of_two(rounded), 1.0))


def gelu_tanh(f: Formula, x: SSAValue) -> SSAValue:
    """x / (1 + 2^t), with 2^t = e^(-2u): x (1 + tanh u) / 2."""
    slope = f.fma(f.mul(x, x), _TANH_CUBIC, _TANH_SLOPE)
    t = f.clamp(f.mul(x, slope), _ZERO, _INFINITY)
    rounded = f.add(t, _BIASED)
    power = f.polynomial(f.sub(t, f.sub(rounded, _BIASED)), p.EXP2_SHORT)
    return f.div(x, f.fma(power, f.power_of_two(rounded), 1.0))


def gelu(f: Formula, x: SSAValue) -> SSAValue:
    """max(x, 0) - |x| * 2^Q(|x|), where 2^Q is the part of a normal distribution beyond |x|."""
    size = f.at_most(f.abs(x), p.GELU_LARGE)
    t = f.polynomial(size, p.NORMAL_TAIL_LOG2)
    rounded = f.add(t, p.ROUND)
    power = f.polynomial(f.sub(t, f.sub(rounded, p.ROUND)), p.EXP2_SHORT)
    # Never near the ends of the range: the exponent is added to the bits.
    tail = f.from_bits(f.plus(f.bits(power), f.left(f.bits(rounded), 23)))
    # Of -infinity NaN. As less +0 leaves a number alone, that would be made a choice of two.
    above = f.sub(x, f.at_most(x, -0.0))
    return f.fma(f.neg(size), tail, above)


def softplus(f: Formula, x: SSAValue) -> SSAValue:
    """max(x, 0) + ln(1 + e^-|x|)."""
    return f.add(f.at_least(x, 0.0), log1p(f, exp(f, f.neg(f.abs(x)))))
