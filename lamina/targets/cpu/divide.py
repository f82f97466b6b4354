"""Integer division that cannot trap: by zero it gives 0, and the least integer by -1 wraps."""

from __future__ import annotations

from collections.abc import Callable

from lamina.targets.cpu.integers import constant
from lamina.targets.cpu.lanes import Lanes
from lamina.targets.cpu.ranges import Range

Division = Callable[[Lanes, str, str, Range, Range], str]
"""Divides x by y, of which the ranges are known."""


def signed_quotient(lanes: Lanes, x: str, y: str, xs: Range, ys: Range) -> str:
    """Return x / y, truncated towards zero."""
    if xs.natural and ys.natural:
        return unsigned_quotient(lanes, x, y, xs, ys)
    if _safe(ys, signed=True):
        return lanes.op("sdiv", x, y)
    one, minus = lanes.constant(1), lanes.constant(-1)
    negative = lanes.compare("eq", y, minus)
    divisor = lanes.select(negative, one, y)
    quotient = _guarded(lanes, "sdiv", x, divisor)
    return lanes.select(negative, lanes.op("sub", lanes.constant(0), x), quotient)


def signed_remainder(lanes: Lanes, x: str, y: str, xs: Range, ys: Range) -> str:
    """Return x - y * (x / y), which has the sign of x."""
    if xs.natural and ys.natural:
        return unsigned_remainder(lanes, x, y, xs, ys)
    if _safe(ys, signed=True):
        return lanes.op("srem", x, y)
    # The remainder by -1 is the remainder by 1.
    divisor = lanes.select(lanes.compare("eq", y, lanes.constant(-1)), lanes.constant(1), y)
    return _guarded(lanes, "srem", x, divisor)


def unsigned_quotient(lanes: Lanes, x: str, y: str, xs: Range, ys: Range) -> str:
    """Return x / y of unsigned integers."""
    folded = _folded(x, y, lambda a, b: a // b)
    if folded is not None:
        return folded
    return lanes.op("udiv", x, y) if _safe(ys) else _guarded(lanes, "udiv", x, y)


def unsigned_remainder(lanes: Lanes, x: str, y: str, xs: Range, ys: Range) -> str:
    """Return x mod y of unsigned integers."""
    folded = _folded(x, y, lambda a, b: a % b)
    if folded is not None:
        return folded
    return lanes.op("urem", x, y) if _safe(ys) else _guarded(lanes, "urem", x, y)


def _guarded(lanes: Lanes, name: str, x: str, y: str) -> str:
    zero = lanes.compare("eq", y, lanes.constant(0))
    quotient = lanes.op(name, x, lanes.select(zero, lanes.constant(1), y))
    return lanes.select(zero, lanes.constant(0), quotient)


def _safe(ys: Range, *, signed: bool = False) -> bool:
    positive = ys.lo is not None and ys.lo > 0
    return positive or (not signed and ys.hi is not None and ys.hi < 0)


def _folded(x: str, y: str, rule: Callable[[int, int], int]) -> str | None:
    if x.startswith(("%", "splat", "<")) or y.startswith(("%", "splat", "<")):
        return None
    a, b = constant(x), constant(y)
    if a is None or b is None or a < 0 or b < 0:
        return None
    return str(rule(a, b)) if b else "0"
