"""Sine, cosine and tangent."""

from __future__ import annotations

from xdsl.ir import SSAValue

from lamina.passes import polynomials as p
from lamina.passes.formulas.formula import Formula

_LARGEST_REST = 0.8
"""A little above pi / 4; only |x| > 2^22 leaves more, and is then no more than bounded."""


def sin(f: Formula, x: SSAValue) -> SSAValue:
    """Return sin x: of the rest of x / (pi / 2), by the quadrant."""
    return _by_quadrant(f, x, 0)


def cos(f: Formula, x: SSAValue) -> SSAValue:
    """Return cos x, which is the sine one quadrant on."""
    return _by_quadrant(f, x, 1)


def tan(f: Formula, x: SSAValue) -> SSAValue:
    """Return tan x: sine over cosine, or -cosine over sine in odd quadrants."""
    sine, cosine, quadrant = _parts(f, x)
    odd = f.compare_bits("ne", f.mask(quadrant, 1), 0)
    return f.div(f.select(odd, f.neg(cosine), sine), f.select(odd, sine, cosine))


def _by_quadrant(f: Formula, x: SSAValue, ahead: int) -> SSAValue:
    sine, cosine, quadrant = _parts(f, x)
    quadrant = f.plus(quadrant, ahead) if ahead else quadrant
    odd = f.compare_bits("ne", f.mask(quadrant, 1), 0)
    sign = f.left(f.mask(quadrant, 2), 30)
    return f.from_bits(f.flip(f.bits(f.select(odd, cosine, sine)), sign))


def _parts(f: Formula, x: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
    """Return the sine and cosine of the rest, and the bits that number the quadrant."""
    rounded = f.fma(x, p.TWO_OVER_PI, p.ROUND)
    n = f.sub(rounded, p.ROUND)
    rest = x
    for part in p.HALF_PI:
        rest = f.fma(n, -part, rest)
    rest = f.clamp(rest, -_LARGEST_REST, _LARGEST_REST)
    square = f.mul(rest, rest)
    sine = f.fma(f.mul(rest, square), f.polynomial(square, p.SIN), rest)
    sine = f.copysign(sine, rest)  # the sum of -0 and what it is less is 0
    return sine, f.polynomial(square, p.COS), f.bits(rounded)
