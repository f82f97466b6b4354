"""Integer arithmetic (PTX ISA 9.7.1 and 9.7.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lamina.targets.reference.numerics import choose
from lamina.testing.ptx.decoder import Decoder, Step
from lamina.testing.ptx.lanes import Lanes
from lamina.testing.ptx.rules.rule import Compute, Rule, pointwise
from lamina.testing.ptx.scalars import SCALARS, Scalar
from lamina.testing.ptx.syntax import Instruction
from lamina.testing.ptx.threads import Threads


def _plain(compute: Compute) -> Rule:
    def rule(decoder: Decoder, op: Instruction) -> Step:
        scalar = decoder.scalar(op)
        if "relu" in op.modifiers:
            raise decoder.unknown(op)
        count = len(op.operands) - 1
        return pointwise(decoder, op, compute, scalar, [scalar] * count)

    return rule


def _limits(scalar: Scalar) -> tuple[int, int]:
    info = np.iinfo(scalar.dtype)
    return int(info.min), int(info.max)


def _saturating(compute: Callable[[Any, Any], Any]) -> Rule:
    """`.sat` clamps s32; `.cc` keeps the carry, `addc` and `subc` use it."""

    def rule(decoder: Decoder, op: Instruction) -> Step:
        scalar = decoder.scalar(op)
        if "cc" in op.modifiers or op.name in ("addc", "subc"):
            return _carrying(decoder, op, scalar)
        if "sat" in op.modifiers:
            low, high = _limits(scalar)

            def clamped(a: Any, b: Any) -> Any:
                return np.clip(compute(np.int64(a), np.int64(b)), low, high)

            return pointwise(decoder, op, clamped, scalar, [scalar] * 2)
        return pointwise(decoder, op, compute, scalar, [scalar] * 2)

    return rule


def _carrying(decoder: Decoder, op: Instruction, scalar: Scalar) -> Step:
    raw = SCALARS[f"u{scalar.bits}"]
    write = decoder.write(op, op.operands[0], raw)
    left, right = (decoder.read(op, operand, raw) for operand in op.operands[1:])
    uses, keeps = op.name.endswith("c"), "cc" in op.modifiers
    subtracts = op.name.startswith("sub")

    def step(t: Threads, lanes: Lanes) -> None:
        a, b = np.broadcast_arrays(left(t), right(t))
        carry = t.carry.astype(raw.dtype) if uses else raw.dtype.type(0)
        if subtracts:
            first = a - b
            y = first - carry
            out = (a < b) | (first < carry)
        else:
            first = a + b
            y = first + carry
            out = (first < a) | (y < first)
        if keeps:
            np.copyto(t.carry, out, where=lanes.where, casting="unsafe")
        write(t, lanes, y)

    return step


def high(a: Any, b: Any, scalar: Scalar) -> Any:
    """Return the upper half of products."""
    if scalar.bits < 64:
        wide = np.int64 if scalar.signed else np.uint64
        return (np.asarray(a, wide) * np.asarray(b, wide) >> wide(scalar.bits)).astype(scalar.dtype)
    x, y = np.asarray(a).view(np.uint64), np.asarray(b).view(np.uint64)
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    low = (x & mask) * (y & mask) >> half
    middle = (x >> half) * (y & mask) + low
    other = (x & mask) * (y >> half) + (middle & mask)
    top = (x >> half) * (y >> half) + (middle >> half) + (other >> half)
    if scalar.signed:
        top = top - choose(x >> np.uint64(63), y, 0) - choose(y >> np.uint64(63), x, 0)
    return top.view(scalar.dtype)


def _multiply(decoder: Decoder, op: Instruction) -> Step:
    """`mul` and `mad` with .lo, .hi or .wide."""
    scalar = decoder.scalar(op)
    added = op.name.startswith("mad")
    if "cc" in op.modifiers or op.name == "madc" or "sat" in op.modifiers:
        raise decoder.unknown(op)
    mode = op.modifiers[0]
    result = scalar
    if mode == "wide":
        result = SCALARS[f"{scalar.kind}{2 * scalar.bits}"]

        def product(a: Any, b: Any) -> Any:
            return a.astype(result.dtype) * b.astype(result.dtype)
    elif mode == "hi":

        def product(a: Any, b: Any) -> Any:
            return high(a, b, scalar)
    elif mode == "lo":

        def product(a: Any, b: Any) -> Any:
            return a * b
    else:
        raise decoder.unknown(op)
    if not added:
        return pointwise(decoder, op, product, result, [scalar] * 2)
    return pointwise(
        decoder, op, lambda a, b, c: product(a, b) + c, result, [scalar, scalar, result]
    )


def _multiply24(decoder: Decoder, op: Instruction) -> Step:
    scalar = decoder.scalar(op)
    shift = scalar.dtype.type(8)

    def product(a: Any, b: Any) -> Any:
        full = (a << shift >> shift).astype(np.int64) * (b << shift >> shift).astype(np.int64)
        return full >> 16 if op.modifiers[0] == "hi" else full

    if op.name == "mul24":
        return pointwise(
            decoder, op, lambda a, b: product(a, b).astype(scalar.dtype), scalar, [scalar] * 2
        )
    return pointwise(
        decoder, op, lambda a, b, c: product(a, b).astype(scalar.dtype) + c, scalar, [scalar] * 3
    )


def _divide(a: Any, b: Any) -> Any:
    """The quotient, truncated; by zero all bits are set."""
    quotient = np.floor_divide(a, b)
    if a.dtype.kind == "i":
        inexact = (quotient * b != a) & ((a < 0) != (b < 0))
        quotient = quotient + inexact.astype(a.dtype)
    return choose(b == 0, np.array(-1).astype(a.dtype), quotient)


def _remainder(a: Any, b: Any) -> Any:
    """The remainder of the truncated quotient; by zero, the dividend."""
    return choose(b == 0, a, a - _divide(a, b) * b)


def _negate(a: Any) -> Any:
    return (0 - a).astype(a.dtype)


def _distance(a: Any, b: Any, c: Any) -> Any:
    return c + choose(a > b, a - b, b - a).astype(c.dtype)


def _dot(decoder: Decoder, op: Instruction) -> Step:
    """`dp4a` and `dp2a`: c + the dot product of bytes, or of 16-bit numbers and bytes."""
    left, right = op.modifiers[-2][0], op.modifiers[-1][0]
    raw = SCALARS["u32"]
    result = SCALARS["s32" if "s" in (left, right) else "u32"]
    bytes_of = {"s": np.dtype(np.int8), "u": np.dtype(np.uint8)}
    halves_of = {"s": np.dtype(np.int16), "u": np.dtype(np.uint16)}
    start = 2 if "hi" in op.modifiers else 0

    def split(x: Any, dtype: np.dtype[Any]) -> Any:
        return np.ascontiguousarray(x).reshape(-1, 1).view(dtype).astype(np.int64)

    def compute(a: Any, b: Any, c: Any) -> Any:
        y = split(b, bytes_of[right])
        if op.name == "dp4a":
            x = split(a, bytes_of[left])
        else:
            x, y = split(a, halves_of[left]), y[:, start : start + 2]
        return ((x * y).sum(axis=1) + c).astype(result.dtype)

    return pointwise(decoder, op, compute, result, [raw, raw, result])


RULES: dict[str, Rule] = {
    "add": _saturating(np.add),
    "sub": _saturating(np.subtract),
    "addc": _saturating(np.add),
    "subc": _saturating(np.subtract),
    "mul": _multiply,
    "mad": _multiply,
    "mul24": _multiply24,
    "mad24": _multiply24,
    "sad": _plain(_distance),
    "div": _plain(_divide),
    "rem": _plain(_remainder),
    "abs": _plain(np.abs),
    "neg": _plain(_negate),
    "min": _plain(np.minimum),
    "max": _plain(np.maximum),
    "dp4a": _dot,
    "dp2a": _dot,
}
"""Rules for instructions whose type is an integer."""
