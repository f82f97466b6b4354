"""Floats of 8 bits or fewer: their values, and the codes of the nearest ones."""

from __future__ import annotations

from math import inf, nan

from xdsl.ir import SSAValue

from lamina.dialects.byte_floats import ByteFloat
from lamina.passes import polynomials as p
from lamina.passes.formulas.formula import Formula

_ROUND_BITS = 0x4B400000
"""The bits of `polynomials.ROUND`."""

_SIGN = -(1 << 31)


def decode(f: Formula, bits: SSAValue, code: ByteFloat) -> SSAValue:
    """Return the f32 numbers of codes, which are integers below 256.

    A code shifted to where f32 has its exponent is too small by the biases' difference.
    """
    size = f.mask(bits, (1 << code.width) - 1)
    normal = f.mul(f.from_bits(f.left(size, 23 - code.mantissa)), 2.0 ** (127 - code.bias))
    small = f.mul(f.to_float(size), 2.0 ** (1 - code.bias - code.mantissa))
    y = f.select(f.compare_bits("lt", size, 1 << code.mantissa), small, normal)
    if code.infinity is not None:
        y = f.select(f.compare_bits("eq", size, code.infinity), inf, y)
        y = f.select(f.compare_bits("gt", size, code.infinity), nan, y)
    sign = f.left(f.mask(bits, 1 << code.width), 31 - code.width)
    y = f.from_bits(f.flip(f.bits(y), sign))
    if code.infinity is not None or not code.has_nan:
        return y
    return f.select(f.compare_bits("eq", bits if code.one_zero else size, code.missing), nan, y)


def encode(f: Formula, x: SSAValue, code: ByteFloat, *, saturate: bool) -> SSAValue:
    """Return the codes of the nearest numbers to f32 ones, as integers below 256.

    A number is rounded by an addition to its bits; one below the least exponent by an addition
    of what leaves no bit below the last one of its code.
    """
    bits, dropped = f.bits(x), 23 - code.mantissa
    size = f.mask(bits, (1 << 31) - 1)
    even = f.mask(f.right(size, dropped, signed=False), 1)
    rounded = f.plus(f.plus(size, (1 << dropped - 1) - 1), even)
    normal = f.right(rounded, dropped, signed=False)
    normal = f.minus(normal, (127 - code.bias) << code.mantissa)
    scaled = f.mul(f.from_bits(size), 2.0 ** (code.bias - 1 + code.mantissa))
    small = f.minus(f.bits(f.add(scaled, p.ROUND)), _ROUND_BITS)
    is_small = f.compare_bits("lt", size, (128 - code.bias) << 23)
    found = f.select_bits(is_small, small, normal)
    beyond = f.compare_bits("gt", found, code.largest)
    sign = f.right(f.mask(bits, _SIGN), 31 - code.width, signed=False)
    found = f.select_bits(beyond, code.largest if saturate else code.overflow, found)
    if code.one_zero:
        for each in (0, code.overflow):
            sign = f.select_bits(f.compare_bits("eq", found, each), 0, sign)
    found = f.plus(found, sign)
    return f.select_bits(f.compare("ne", x, x), code.missing, found)
