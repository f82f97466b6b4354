"""Write the arithmetic that computes a function, of floats and bits, at a place of a kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import f32, f64, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from lamina.dialects import tile
from lamina.passes.formulas.constants import Constants

Term = SSAValue | float
"""A value, or a number that stands for a constant of the type that is wanted."""


class Formula:
    """Puts operations on values of `shape` where `insert` does, which returns their results.

    Values are f32 or, as `bits`, i32; of `kind` f64, f64 and i64. A number as an argument becomes
    a hoisted constant.
    """

    def __init__(
        self,
        insert: Callable[[Operation], SSAValue],
        constants: Constants,
        shape: Sequence[int],
        kind: Attribute = f32,
    ) -> None:
        self.insert = insert
        self._constants = constants
        self._kind = kind
        self._floats = tile.vector(kind, shape)
        self._bits = tile.vector(i64 if kind == f64 else i32, shape)

    def _of(self, type: Attribute, *terms: Term) -> list[SSAValue]:
        return [t if isinstance(t, SSAValue) else self._constants.get(t, type) for t in terms]

    def _float(self, kind: type[Any], *terms: Term) -> SSAValue:
        return self.insert(kind(*self._of(self._floats, *terms)))

    def _integer(self, kind: type[Any], *terms: Term) -> SSAValue:
        return self.insert(kind(*self._of(self._bits, *terms)))

    def add(self, a: Term, b: Term) -> SSAValue:
        """Return `a + b`."""
        return self._float(arith.AddfOp, a, b)

    def sub(self, a: Term, b: Term) -> SSAValue:
        """Return `a - b`."""
        return self._float(arith.SubfOp, a, b)

    def mul(self, a: Term, b: Term) -> SSAValue:
        """Return `a * b`."""
        return self._float(arith.MulfOp, a, b)

    def div(self, a: Term, b: Term) -> SSAValue:
        """Return `a / b`."""
        return self._float(arith.DivfOp, a, b)

    def fma(self, a: Term, b: Term, c: Term) -> SSAValue:
        """Return `a * b + c`, rounded once."""
        return self._float(math.FmaOp, a, b, c)

    def neg(self, x: SSAValue) -> SSAValue:
        """Return `-x`."""
        return self._float(arith.NegfOp, x)

    def abs(self, x: SSAValue) -> SSAValue:
        """Return `|x|`."""
        return self._float(math.AbsFOp, x)

    def sqrt(self, x: SSAValue) -> SSAValue:
        """Return `x^0.5`."""
        return self._float(math.SqrtOp, x)

    def floor(self, x: SSAValue) -> SSAValue:
        """Return the largest integer that is not above `x`."""
        return self._float(math.FloorOp, x)

    def copysign(self, x: Term, sign: SSAValue) -> SSAValue:
        """Return `|x|` with the sign of `sign`."""
        return self._float(math.CopySignOp, x, sign)

    def at_most(self, x: SSAValue, bound: float) -> SSAValue:
        """Return the smaller of both; NaN stays."""
        return self._float(arith.MinimumfOp, x, bound)

    def at_least(self, x: SSAValue, bound: float) -> SSAValue:
        """Return the larger of both; NaN stays."""
        return self._float(arith.MaximumfOp, x, bound)

    def clamp(self, x: SSAValue, low: float, high: float) -> SSAValue:
        """Return `x` if it lies in `[low, high]`, else the nearer bound; NaN stays."""
        return self.at_most(self.at_least(x, low), high)

    def polynomial(self, x: SSAValue, coefficients: Sequence[float]) -> SSAValue:
        """Return the polynomial of `x` whose coefficients ascend (Horner's rule)."""
        *lower, highest = coefficients
        total: Term = highest
        for coefficient in reversed(lower):
            total = self.fma(total, x, coefficient)
        assert isinstance(total, SSAValue)
        return total

    def compare(self, kind: str, a: Term, b: Term) -> SSAValue:
        """Return `a kind b` of floats: eq ne lt le gt ge."""
        return self.insert(tile.CompareOp(kind, *self._of(self._floats, a, b)))

    def compare_bits(self, kind: str, a: Term, b: Term) -> SSAValue:
        """Return `a kind b` of signed integers."""
        return self.insert(tile.CompareOp(kind, *self._of(self._bits, a, b)))

    def select(self, condition: SSAValue, a: Term, b: Term) -> SSAValue:
        """Return `a` where the condition holds, else `b`; of floats."""
        return self.insert(tile.SelectOp(condition, *self._of(self._floats, a, b)))

    def select_bits(self, condition: SSAValue, a: Term, b: Term) -> SSAValue:
        """Return `a` where the condition holds, else `b`; of integers."""
        return self.insert(tile.SelectOp(condition, *self._of(self._bits, a, b)))

    def both(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Return where two conditions hold."""
        return self.insert(arith.AndIOp(a, b))

    def bits(self, x: SSAValue) -> SSAValue:
        """Return the bits of floats."""
        return self.insert(arith.BitcastOp(x, self._bits))

    def from_bits(self, bits: SSAValue) -> SSAValue:
        """Return the floats of these bits."""
        return self.insert(arith.BitcastOp(bits, self._floats))

    def to_float(self, bits: SSAValue) -> SSAValue:
        """Return integers as floats of the same value."""
        return self.insert(tile.CastOp(bits, self._kind))

    def minus(self, a: Term, b: Term) -> SSAValue:
        """Return `a - b` of integers."""
        return self._integer(arith.SubiOp, a, b)

    def plus(self, a: Term, b: Term) -> SSAValue:
        """Return `a + b` of integers."""
        return self._integer(arith.AddiOp, a, b)

    def mask(self, a: Term, b: Term) -> SSAValue:
        """Return bitwise `a and b`."""
        return self._integer(arith.AndIOp, a, b)

    def flip(self, a: Term, b: Term) -> SSAValue:
        """Return bitwise `a xor b`."""
        return self._integer(arith.XOrIOp, a, b)

    def rest_of(self, a: Term, b: Term) -> SSAValue:
        """Return `a mod b` of unsigned integers."""
        return self._integer(arith.RemUIOp, a, b)

    def left(self, bits: SSAValue, count: Term) -> SSAValue:
        """Return bits shifted left."""
        return self._integer(arith.ShLIOp, bits, count)

    def right(self, bits: SSAValue, count: int, *, signed: bool) -> SSAValue:
        """Return bits shifted right, filled with the sign or with zeros."""
        return self._integer(arith.ShRSIOp if signed else arith.ShRUIOp, bits, count)

    def power_of_two(self, rounded: SSAValue) -> SSAValue:
        """Return 2^n of a sum n + 127 + `polynomials.ROUND`, where -127 < n < 128."""
        return self.from_bits(self.left(self.bits(rounded), 23))
