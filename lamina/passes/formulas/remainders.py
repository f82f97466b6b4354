"""Remainders of floats, exactly: of their mantissas as integers, a few bits of the quotient a step.

No product is rounded, so that it does not matter how a target does.
"""

from __future__ import annotations

from math import inf, nan
from typing import Final, NamedTuple

from xdsl.ir import SSAValue

from lamina.passes.formulas.formula import Formula

_BITS = 8
"""By how much the rest, which has 24 bits at most, is shifted within 32."""

STEPS: Final = 32
"""As often as that goes into the difference of two exponents, which is 253 at most."""


class Parts(NamedTuple):
    """A float's size is `whole * 2^(exponent - 150)`, of integers."""

    whole: SSAValue
    exponent: SSAValue

    @staticmethod
    def of(f: Formula, x: SSAValue) -> Parts:
        """Return the parts of finite floats, denormals among them."""
        bits = f.bits(x)
        field = f.mask(f.right(bits, 23, signed=False), 255)
        low = f.mask(bits, (1 << 23) - 1)
        tiny = f.compare_bits("eq", field, 0)
        whole = f.select_bits(tiny, low, f.plus(low, 1 << 23))
        return Parts(whole, f.select_bits(tiny, 1, field))


def begin(f: Formula, a: Parts, b: Parts) -> tuple[SSAValue, SSAValue]:
    """Return the rest of a's mantissa, and how many bits it has still to be shifted by."""
    left = f.minus(a.exponent, b.exponent)
    return f.rest_of(a.whole, b.whole), f.select_bits(f.compare_bits("gt", left, 0), left, 0)


def shift(f: Formula, rest: SSAValue, left: SSAValue, b: Parts) -> tuple[SSAValue, SSAValue]:
    """Return the rest of a few bits more, and what is left of them."""
    some = f.select_bits(f.compare_bits("lt", left, _BITS), left, _BITS)
    return f.rest_of(f.left(rest, some), b.whole), f.minus(left, some)


def fmod(f: Formula, rest: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
    """Return a - b * trunc(a / b), of which the last rest gives the size where |a| >= |b|."""
    exponent = f.minus(Parts.of(f, b).exponent, 150)
    half = f.right(exponent, 1, signed=True)
    y = f.mul(f.to_float(rest), _power(f, half))
    y = f.mul(y, _power(f, f.minus(exponent, half)))
    y = f.select(f.compare("lt", f.abs(a), f.abs(b)), f.abs(a), y)
    y = f.copysign(y, a)
    y = f.select(f.compare("eq", f.abs(a), inf), nan, y)
    y = f.select(f.compare("eq", b, 0.0), nan, y)
    y = f.select(f.compare("eq", a, a), y, nan)
    return f.select(f.compare("eq", b, b), y, nan)


def floor_mod(f: Formula, rest: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
    """Return a - b * floor(a / b), which has the sign of b."""
    y = fmod(f, rest, a, b)
    apart = f.compare("lt", f.mul(f.copysign(1.0, y), f.copysign(1.0, b)), 0.0)
    moved = f.select(apart, f.add(y, b), y)
    return f.select(f.compare("eq", y, 0.0), f.copysign(y, b), moved)


def _power(f: Formula, exponent: SSAValue) -> SSAValue:
    return f.from_bits(f.left(f.plus(exponent, 127), 23))
