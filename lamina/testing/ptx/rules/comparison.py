"""Comparisons and choices (PTX ISA 9.7.6 and 9.7.7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lamina.targets.reference.numerics import choose
from lamina.testing.ptx.decoder import Decoder, Read, Step
from lamina.testing.ptx.lanes import Lanes
from lamina.testing.ptx.rounding import flushed
from lamina.testing.ptx.rules.rule import Rule, pointwise
from lamina.testing.ptx.scalars import SCALARS, Scalar
from lamina.testing.ptx.syntax import Both, Instruction, Sink
from lamina.testing.ptx.threads import Threads

PRED = SCALARS["pred"]


def _number(a: Any, b: Any) -> Any:
    return ~(np.isnan(a) | np.isnan(b))


_ORDERED: dict[str, Callable[[Any, Any], Any]] = {
    "eq": np.equal,
    "ne": lambda a, b: (a < b) | (a > b),
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
    "num": _number,
    "nan": lambda a, b: ~_number(a, b),
    "equ": lambda a, b: ~((a < b) | (a > b)),
    "neu": np.not_equal,
    "ltu": lambda a, b: ~(a >= b),
    "leu": lambda a, b: ~(a > b),
    "gtu": lambda a, b: ~(a <= b),
    "geu": lambda a, b: ~(a < b),
}
"""What compares; for floats those without a `u` are false where there is a NaN."""

_COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def _compare(op: Instruction, scalar: Scalar) -> Callable[[Any, Any], Any]:
    relation = _ORDERED[op.modifiers[0]]
    if not scalar.is_float:
        return np.not_equal if op.modifiers[0] == "ne" else relation
    flushes = "ftz" in op.modifiers and scalar.dtype == np.float32

    def compare(a: Any, b: Any) -> Any:
        if scalar.dtype.itemsize < 4:
            a, b = a.astype(np.float32), b.astype(np.float32)
        if flushes:
            a, b = flushed(a), flushed(b)
        return relation(a, b)

    return compare


def _also(decoder: Decoder, op: Instruction) -> tuple[Callable[[Any, Any], Any], Read] | None:
    combine = next((_COMBINE[word] for word in op.modifiers[1:] if word in _COMBINE), None)
    return combine and (combine, decoder.read(op, op.operands[3], PRED))


def _set_predicate(decoder: Decoder, op: Instruction) -> Step:
    scalar = decoder.scalar(op)
    if op.modifiers[0] not in _ORDERED:
        raise decoder.unknown(op)
    compare = _compare(op, scalar)
    target = op.operands[0]
    first, second = (target.first, target.second) if isinstance(target, Both) else (target, Sink())
    write, write_other = decoder.write(op, first, PRED), decoder.write(op, second, PRED)
    left = decoder.read(op, op.operands[1], scalar)
    right = decoder.read(op, op.operands[2], scalar)
    also = _also(decoder, op)
    two = scalar.packed == 2

    def step(t: Threads, lanes: Lanes) -> None:
        y = compare(left(t), right(t))
        if two:
            y = np.broadcast_to(y, 2 * t.count)
            y, other = y[::2], y[1::2]
        else:
            other = ~y
        if also:
            more = also[1](t)
            y, other = also[0](y, more), also[0](other, more)
        write(t, lanes, y)
        write_other(t, lanes, other)

    return step


def _set_value(decoder: Decoder, op: Instruction) -> Step:
    """`set`: all ones, or 1.0, where the comparison holds."""
    scalar, result = decoder.scalar(op), decoder.scalar(op, -2)
    compare = _compare(op, scalar)
    yes = result.dtype.type(1) if result.is_float else np.array(-1).astype(result.dtype)[()]
    no = result.dtype.type(0)
    if any(word in _COMBINE for word in op.modifiers[1:]):
        raise decoder.unknown(op)
    return pointwise(decoder, op, lambda a, b: choose(compare(a, b), yes, no), result, [scalar] * 2)


def _select(decoder: Decoder, op: Instruction) -> Step:
    scalar = SCALARS[f"b{decoder.scalar(op).bits}"]
    write = decoder.write(op, op.operands[0], scalar)
    typed = decoder.scalar(op)
    left, right = (decoder.read(op, operand, typed) for operand in op.operands[1:3])
    choice = decoder.read(op, op.operands[3], PRED)

    def step(t: Threads, lanes: Lanes) -> None:
        a, b = (np.asarray(x).view(scalar.dtype) for x in (left(t), right(t)))
        write(t, lanes, choose(choice(t), a, b))

    return step


def _select_by_sign(decoder: Decoder, op: Instruction) -> Step:
    scalar, key = decoder.scalar(op, -2), decoder.scalar(op)
    return pointwise(
        decoder, op, lambda a, b, c: choose(c >= 0, a, b), scalar, [scalar, scalar, key]
    )


RULES: dict[str, Rule] = {
    "setp": _set_predicate,
    "set": _set_value,
    "selp": _select,
    "slct": _select_by_sign,
}
"""Rules for comparisons and choices."""
