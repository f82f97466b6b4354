"""What is known of an integer before the kernel runs: its least and greatest value, its factor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd
from typing import Any, Final

from xdsl.dialects import arith
from xdsl.ir import Operation

_LIMIT: Final = 1 << 62


@dataclass(frozen=True)
class Range:
    """Every value is in [lo, hi] (None: no bound) and a multiple of `factor` (0: it is zero)."""

    lo: int | None = None
    hi: int | None = None
    factor: int = 1

    @staticmethod
    def exactly(value: int) -> Range:
        """Return the range of one value."""
        return Range(value, value, abs(value))

    @property
    def natural(self) -> bool:
        """Whether no value is negative."""
        return self.lo is not None and self.lo >= 0

    def below(self, bound: Range) -> bool:
        """Whether every value is less than every value of `bound`."""
        return self.hi is not None and bound.lo is not None and self.hi < bound.lo

    def union(self, other: Range) -> Range:
        """Return the range of a value that is in either."""
        lo = None if self.lo is None or other.lo is None else min(self.lo, other.lo)
        hi = None if self.hi is None or other.hi is None else max(self.hi, other.hi)
        return Range(lo, hi, gcd(self.factor, other.factor))


ANY: Final = Range()
NATURAL: Final = Range(0)


def plus(a: Range, b: Range) -> Range:
    """Return the range of a sum."""
    lo = None if a.lo is None or b.lo is None else a.lo + b.lo
    hi = None if a.hi is None or b.hi is None else a.hi + b.hi
    return _kept(lo, hi, gcd(a.factor, b.factor))


def minus(a: Range, b: Range) -> Range:
    """Return the range of a difference."""
    lo = None if a.lo is None or b.hi is None else a.lo - b.hi
    hi = None if a.hi is None or b.lo is None else a.hi - b.lo
    return _kept(lo, hi, gcd(a.factor, b.factor))


def times(a: Range, b: Range) -> Range:
    """Return the range of a product."""
    factor = a.factor * b.factor
    if a.natural and b.natural:
        hi = None if a.hi is None or b.hi is None else a.hi * b.hi
        return _kept((a.lo or 0) * (b.lo or 0), hi, factor)
    if a.lo is None or a.hi is None or b.lo is None or b.hi is None:
        return Range(factor=factor if factor < _LIMIT else 1)
    ends = [x * y for x in (a.lo, a.hi) for y in (b.lo, b.hi)]
    return _kept(min(ends), max(ends), factor)


def counted(lower: Range, upper: Range, step: Range) -> Range:
    """Return the range of the counter of a loop from `lower` to `upper` (exclusive)."""
    hi = None if upper.hi is None else upper.hi - 1
    exact = lower.lo == lower.hi and step.lo == step.hi
    if exact and hi is not None and lower.lo is not None and step.lo:
        hi = max(lower.lo + max(hi - lower.lo, 0) // step.lo * step.lo, lower.lo)
    return Range(lower.lo, hi, gcd(lower.factor, step.factor))


def _quotient(a: Range, b: Range) -> Range:
    if not a.natural or not b.natural or not b.lo:
        return ANY
    hi = None if a.hi is None else a.hi // b.lo
    exact = b.lo == b.hi and a.factor % b.lo == 0
    lo = 0 if b.hi is None else (a.lo or 0) // b.hi
    return Range(lo, hi, a.factor // b.lo if exact else 1)


def _remainder(a: Range, b: Range) -> Range:
    if not a.natural or not b.natural:
        return ANY
    ends = [end for end in (a.hi, None if b.hi is None else max(b.hi - 1, 0)) if end is not None]
    return Range(0, min(ends) if ends else None, gcd(a.factor, b.factor))


def _minimum(a: Range, b: Range) -> Range:
    lo = None if a.lo is None or b.lo is None else min(a.lo, b.lo)
    his = [hi for hi in (a.hi, b.hi) if hi is not None]
    return Range(lo, min(his) if his else None, gcd(a.factor, b.factor))


def _maximum(a: Range, b: Range) -> Range:
    hi = None if a.hi is None or b.hi is None else max(a.hi, b.hi)
    los = [lo for lo in (a.lo, b.lo) if lo is not None]
    return Range(max(los) if los else None, hi, gcd(a.factor, b.factor))


def _masked(a: Range, b: Range) -> Range:
    his = [r.hi for r in (a, b) if r.natural and r.hi is not None]
    return Range(0, min(his) if his else None) if a.natural or b.natural else ANY


def _unsigned(rule: Callable[[Range, Range], Range]) -> Callable[[Range, Range], Range]:
    return lambda a, b: rule(a, b) if a.natural and b.natural else ANY


def _shifted(a: Range, b: Range) -> Range:
    if b.lo is None or b.lo != b.hi or not 0 <= b.lo < 62:
        return ANY
    return times(a, Range.exactly(1 << b.lo))


def _shifted_down(a: Range, b: Range) -> Range:
    if b.lo is None or b.lo != b.hi or not 0 <= b.lo < 62:
        return Range(0, a.hi) if a.natural else ANY
    return _quotient(a, Range.exactly(1 << b.lo))


RANGES: Final[dict[type[Operation], Callable[[Any, Any], Range]]] = {
    arith.AddiOp: plus,
    arith.SubiOp: minus,
    arith.MuliOp: times,
    arith.DivUIOp: _quotient,
    arith.DivSIOp: _quotient,
    arith.RemUIOp: _remainder,
    arith.RemSIOp: _remainder,
    arith.MinSIOp: _minimum,
    arith.MaxSIOp: _maximum,
    arith.MinUIOp: _unsigned(_minimum),
    arith.MaxUIOp: _unsigned(_maximum),
    arith.AndIOp: _masked,
    arith.ShLIOp: _shifted,
    arith.ShRUIOp: _shifted_down,
    arith.ShRSIOp: _shifted_down,
}
"""How ranges of operands give the range of a result; for 64-bit integers only."""


def _kept(lo: int | None, hi: int | None, factor: int) -> Range:
    # Past 2^62 a later sum could wrap: nothing is claimed.
    bounded = all(end is None or -_LIMIT < end < _LIMIT for end in (lo, hi))
    return Range(lo, hi, factor) if bounded and factor < _LIMIT else ANY
