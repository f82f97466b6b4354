"""Arc sine, arc cosine and arc tangent."""

from __future__ import annotations

from xdsl.ir import SSAValue

from lamina.passes import polynomials as p
from lamina.passes.formulas.formula import Formula


def atan(f: Formula, x: SSAValue) -> SSAValue:
    """x + x^3 P(x^2) of |x| <= 1, else pi / 2 less that of 1 / x."""
    size = f.abs(x)
    large = f.compare("gt", size, 1.0)
    t = f.select(large, f.div(1.0, size), size)
    rest = _beyond(f, t, f.mul(t, t), p.ATAN)
    turned = f.sub(p.QUARTER_TURN, f.add(f.sub(rest, p.QUARTER_TURN_REST), t))
    return f.copysign(f.select(large, turned, f.add(t, rest)), x)


def asin(f: Formula, x: SSAValue) -> SSAValue:
    """x + x^3 P(x^2) of |x| <= 1/2, else pi / 2 - 2 asin(sqrt((1 - |x|) / 2))."""
    large, t, rest = _half(f, f.abs(x))
    double = f.add(t, t)
    turned = f.sub(p.QUARTER_TURN, f.add(f.sub(f.add(rest, rest), p.QUARTER_TURN_REST), double))
    return f.copysign(f.select(large, turned, f.add(t, rest)), x)


def acos(f: Formula, x: SSAValue) -> SSAValue:
    """pi / 2 - asin x of |x| <= 1/2, else 2 asin(sqrt((1 - |x|) / 2)) or pi less that."""
    large, t, rest = _half(f, f.abs(x))
    signed, slope = f.copysign(t, x), f.copysign(rest, x)
    middle = f.sub(p.QUARTER_TURN, f.add(f.sub(slope, p.QUARTER_TURN_REST), signed))
    part = f.add(f.add(t, t), f.add(rest, rest))
    lost = f.sub(f.add(rest, rest), 2 * p.QUARTER_TURN_REST)
    beyond = f.sub(2 * p.QUARTER_TURN, f.add(lost, f.add(t, t)))
    end = f.select(f.compare("lt", x, 0.0), beyond, part)
    return f.select(large, end, middle)


def _half(f: Formula, size: SSAValue) -> tuple[SSAValue, SSAValue, SSAValue]:
    """Return whether |x| is above 1/2, of which t the arc sine is taken, and asin t - t."""
    large = f.compare("gt", size, 0.5)
    square = f.select(large, f.mul(f.sub(1.0, size), 0.5), f.mul(size, size))
    t = f.select(large, f.sqrt(square), size)
    return large, t, _beyond(f, t, square, p.ASIN)


def _beyond(f: Formula, t: SSAValue, square: SSAValue, polynomial: p.Polynomial) -> SSAValue:
    """Return what an odd function is more than t."""
    return f.mul(f.mul(t, square), f.polynomial(square, polynomial))
