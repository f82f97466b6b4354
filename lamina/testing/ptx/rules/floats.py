"""Floating-point arithmetic in f16, bf16, f32 and f64 (PTX ISA 9.7.3 to 9.7.5).

Every result is rounded once from what is exact; the approximate instructions give the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from lamina.targets.reference.numerics import choose
from lamina.testing.ptx.decoder import Decoder, Step
from lamina.testing.ptx.rounding import MODES, canonical, flushed, fused, rounded, sum_of
from lamina.testing.ptx.rules.rule import Compute, Rule, pointwise
from lamina.testing.ptx.scalars import SCALARS, Scalar
from lamina.testing.ptx.syntax import Instruction


def _finished(op: Instruction, scalar: Scalar, compute: Compute) -> Compute:
    """Return `compute` with what modifiers add: flushing, saturation, and the one NaN."""
    flushes = "ftz" in op.modifiers and scalar.bits == 32
    saturates = "sat" in op.modifiers
    rectifies = "relu" in op.modifiers
    of_sources = cast("Callable[..., Any]", compute)

    def finished(*values: Any) -> Any:
        if flushes:
            values = tuple(map(flushed, values))
        y = np.asarray(of_sources(*values), scalar.dtype)
        if flushes:
            y = flushed(y)
        if saturates:
            y = choose(y > 0, np.minimum(y, scalar.dtype.type(1)), scalar.dtype.type(0))
        if rectifies:
            y = choose((y > 0) | np.isnan(y), y, scalar.dtype.type(0))
        return canonical(y)

    return finished


def _rule(make: Callable[[str, Scalar, Instruction], Compute], count: int) -> Rule:
    """A rule for `make(rounding mode, type, instruction)` of `count` sources."""

    def rule(decoder: Decoder, op: Instruction) -> Step:
        scalar = decoder.scalar(op)
        mode = next((word for word in op.modifiers if word in MODES), "rn")
        if mode != "rn" and scalar.dtype != np.float32:
            raise decoder.unknown(op)
        compute = _finished(op, scalar, make(mode, scalar, op))
        return pointwise(decoder, op, compute, scalar, [scalar] * count)

    return rule


def _halves(scalar: Scalar) -> bool:
    return scalar.dtype.itemsize < 4


def _add(mode: str, scalar: Scalar, op: Instruction) -> Compute:
    sign = -1 if op.name == "sub" else 1

    def compute(a: Any, b: Any) -> Any:
        if _halves(scalar):
            return a.astype(np.float32) + sign * b.astype(np.float32)
        if mode == "rn":
            return a - b if sign < 0 else a + b
        return rounded(sum_of(a.astype(np.float64), sign * b.astype(np.float64)), mode)

    return compute


def _multiply(mode: str, scalar: Scalar, op: Instruction) -> Compute:
    def compute(a: Any, b: Any) -> Any:
        if _halves(scalar):
            return a.astype(np.float32) * b.astype(np.float32)
        return a * b if mode == "rn" else rounded(a.astype(np.float64) * b, mode)

    return compute


def _fuse(mode: str, scalar: Scalar, op: Instruction) -> Compute:
    return lambda a, b, c: fused(a, b, c, mode)


def _divide(mode: str, scalar: Scalar, op: Instruction) -> Compute:
    approximate = "approx" in op.modifiers

    def compute(a: Any, b: Any) -> Any:
        if mode != "rn":
            return rounded(a.astype(np.float64) / b, mode)
        y = a / b
        if approximate:
            vast = (np.abs(b) > 2.0**126) & np.isfinite(b)
            y = choose(vast, choose(np.isinf(a), np.nan, np.copysign(0, y)), y)
        return y

    return compute


def _absolute(mode: str, scalar: Scalar, op: Instruction) -> Compute:
    return np.abs


def _negate(mode: str, scalar: Scalar, op: Instruction) -> Compute:
    return lambda a: -a


def _extreme(mode: str, scalar: Scalar, op: Instruction) -> Compute:
    """The smaller or larger one: -0 is below +0; NaN loses, unless `.NaN` lets it win."""
    smaller, nan_wins = op.name == "min", "NaN" in op.modifiers
    if {"xorsign", "abs"} & set(op.modifiers):
        return lambda a, b: _by_magnitude(a, b, smaller)

    def compute(a: Any, b: Any) -> Any:
        a, b = np.broadcast_arrays(a, b)
        less = (a < b) | ((a == b) & np.signbit(a))
        first = less if smaller else ~less
        if nan_wins:
            first = (first | np.isnan(a)) & ~np.isnan(b)
        else:
            first = (first & ~np.isnan(a)) | np.isnan(b)
        return choose(first, a, b)

    return compute


def _by_magnitude(a: Any, b: Any, smaller: bool) -> Any:
    sign = np.signbit(a) ^ np.signbit(b)
    y = (np.fmin if smaller else np.fmax)(np.abs(a), np.abs(b))
    return choose(sign, -y, y)


def _copysign(mode: str, scalar: Scalar, op: Instruction) -> Compute:
    return lambda a, b: np.copysign(b, a)


def _function(of_double: Callable[[Any], Any]) -> Callable[[str, Scalar, Instruction], Compute]:
    def make(mode: str, scalar: Scalar, op: Instruction) -> Compute:
        if mode != "rn":
            return lambda a: rounded(np.asarray(of_double(a.astype(np.float64))), mode)
        return lambda a: of_double(a.astype(np.float64)).astype(scalar.dtype)

    return make


def _step_test(decoder: Decoder, op: Instruction) -> Step:
    scalar = decoder.scalar(op)
    tests: dict[str, Callable[[Any], Any]] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda a: ~np.isnan(a),
        "notanumber": np.isnan,
        "normal": lambda a: np.isfinite(a) & (np.abs(a) >= np.finfo(scalar.dtype).tiny),
        "subnormal": lambda a: (a != 0) & (np.abs(a) < np.finfo(scalar.dtype).tiny),
    }
    return pointwise(decoder, op, tests[op.modifiers[0]], SCALARS["pred"], [scalar])


RULES: dict[str, Rule] = {
    "add": _rule(_add, 2),
    "sub": _rule(_add, 2),
    "mul": _rule(_multiply, 2),
    "fma": _rule(_fuse, 3),
    "mad": _rule(_fuse, 3),
    "div": _rule(_divide, 2),
    "min": _rule(_extreme, 2),
    "max": _rule(_extreme, 2),
    "copysign": _rule(_copysign, 2),
    "testp": _step_test,
    "abs": _rule(_absolute, 1),
    "neg": _rule(_negate, 1),
    "sqrt": _rule(_function(np.sqrt), 1),
    "rsqrt": _rule(_function(lambda x: 1.0 / np.sqrt(x)), 1),
    "rcp": _rule(_function(lambda x: 1.0 / x), 1),
    "ex2": _rule(_function(np.exp2), 1),
    "lg2": _rule(_function(np.log2), 1),
    "sin": _rule(_function(np.sin), 1),
    "cos": _rule(_function(np.cos), 1),
    "tanh": _rule(_function(np.tanh), 1),
}
"""Rules for instructions whose type is a floating-point one."""
