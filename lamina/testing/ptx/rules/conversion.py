"""Conversions between types (PTX ISA 9.7.9.21)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lamina.targets.reference.numerics import choose
from lamina.testing.ptx.decoder import Decoder, Step
from lamina.testing.ptx.lanes import Lanes
from lamina.testing.ptx.rounding import MODES, canonical, flushed, odd, rounded
from lamina.testing.ptx.rules.rule import Rule, pointwise
from lamina.testing.ptx.scalars import E4M3, E5M2, SCALARS, Scalar
from lamina.testing.ptx.syntax import Instruction
from lamina.testing.ptx.threads import Threads

Convert = Callable[[Any], Any]

_TO_INTEGRAL: dict[str, Convert] = {
    "rni": np.rint,
    "rzi": np.trunc,
    "rmi": np.floor,
    "rpi": np.ceil,
}

_LARGEST = {E4M3: 448.0, E5M2: 57344.0}

_WORDS = {*MODES, *_TO_INTEGRAL, "ftz", "sat", "satfinite", "relu"}


def _convert(decoder: Decoder, op: Instruction) -> Step:
    if op.modifiers[0] == "pack":
        return _pack(decoder, op)
    result, source = decoder.scalar(op, -2), decoder.scalar(op)
    if not {*op.modifiers[:-2]} <= _WORDS:
        raise decoder.unknown(op)
    if result.name == "tf32":
        return pointwise(decoder, op, _to_tf32(op), result, [SCALARS["f32"]])
    if source.packed == 1 and result.packed == 2:
        return _two(decoder, op, result, source)
    return pointwise(decoder, op, _conversion(op, result, source), result, [source])


def _conversion(op: Instruction, result: Scalar, source: Scalar) -> Convert:
    if source.is_float:
        return _from_float(op, result, source)
    if result.is_float:
        return _from_integer(op, result, source)
    low, high = _range(result)
    if "sat" not in op.modifiers:
        return lambda x: x.astype(result.dtype)

    def clamp(x: Any) -> Any:
        below = x < low if source.signed else x < 0
        y = choose(below, 0 if source.signed and low < 0 else low, x).astype(result.dtype)
        y = choose(below, result.dtype.type(low), y)
        return choose(x > min(high, np.iinfo(source.dtype).max), result.dtype.type(high), y)

    return clamp


def _range(scalar: Scalar) -> tuple[int, int]:
    if scalar.kind == "s":
        return -(1 << scalar.bits - 1), (1 << scalar.bits - 1) - 1
    return 0, (1 << scalar.bits) - 1


def _from_float(op: Instruction, result: Scalar, source: Scalar) -> Convert:
    integral = next((_TO_INTEGRAL[word] for word in op.modifiers if word in _TO_INTEGRAL), None)
    flushes = "ftz" in op.modifiers and source.dtype == np.float32
    finish = _to_float(op, result) if result.is_float else _to_integer(result, source)

    def convert(x: Any) -> Any:
        x = (flushed(x) if flushes else x).astype(np.float64)
        return finish(x if integral is None else integral(x))

    return convert


def _to_float(op: Instruction, result: Scalar) -> Convert:
    mode = next((word for word in op.modifiers if word in MODES), "rn")
    flushes = "ftz" in op.modifiers and result.dtype == np.float32

    def convert(x: Any) -> Any:
        if result.dtype in _LARGEST:
            x = np.clip(x, -_LARGEST[result.dtype], _LARGEST[result.dtype])
            return _rectified(op, x).astype(np.float32).astype(result.dtype)
        y = x if result.dtype == np.float64 else rounded(x, mode, result.dtype)
        y = flushed(y) if flushes else y
        if "sat" in op.modifiers:
            y = choose(y > 0, np.minimum(y, result.dtype.type(1)), result.dtype.type(0))
        return canonical(np.asarray(_rectified(op, y)))

    return convert


def _rectified(op: Instruction, y: Any) -> Any:
    if "relu" not in op.modifiers:
        return y
    return choose((y > 0) | np.isnan(y), y, y.dtype.type(0))


def _to_integer(result: Scalar, source: Scalar) -> Convert:
    """Clamp; NaN gives 0, or the sign bit alone where a type has 64 bits."""
    low, high = _range(result)
    wide = result.bits == 64 or source.bits == 64
    of_nan = result.dtype.type(low if result.signed else 1 << result.bits - 1) if wide else 0

    def convert(x: Any) -> Any:
        inside = (x >= float(low)) & (x < float(high + 1))
        y = choose(inside, x, 0).astype(result.dtype)
        y = choose(x >= float(high + 1), result.dtype.type(high), y)
        y = choose(x < float(low), result.dtype.type(low), y)
        return choose(np.isnan(x), of_nan, y).astype(result.dtype)

    return convert


def _from_integer(op: Instruction, result: Scalar, source: Scalar) -> Convert:
    finish = _to_float(op, result)

    def convert(x: Any) -> Any:
        near = np.asarray(x.astype(np.float64))
        if source.bits < 64:
            return finish(near)
        if result.dtype == np.float64 and "rn" in op.modifiers:
            return near
        inside = near < 2.0 ** (63 if source.signed else 64)
        back = choose(inside, near, 0).astype(source.dtype)
        lost = (x - back).view(np.int64) if inside.all() else choose(inside, x - back, -1)
        return finish(odd(near, lost.astype(np.float64)))

    return convert


def _to_tf32(op: Instruction) -> Convert:
    """Keep 10 bits of the fraction: nearest, ties away from zero (rna) or to even (rn)."""
    away = "rna" in op.modifiers

    def convert(x: Any) -> Any:
        bits = np.asarray(_rectified(op, x)).view(np.uint32)
        half = np.uint32(0x1000) if away else np.uint32(0xFFF) + (bits >> np.uint32(13) & 1)
        y = (bits + half) & np.uint32(0xFFFFE000)
        return (
            choose(np.isfinite(x), y, bits & np.uint32(0xFFFFE000))
            .astype(np.uint32)
            .view(np.float32)
        )

    return convert


def _two(decoder: Decoder, op: Instruction, result: Scalar, source: Scalar) -> Step:
    """Two sources become one word, the first one its upper half."""
    convert = _conversion(op, result, source)
    write = decoder.write(op, op.operands[0], result)
    upper, lower = (decoder.read(op, operand, source) for operand in op.operands[1:3])

    def step(t: Threads, lanes: Lanes) -> None:
        pair = [np.broadcast_to(convert(read(t)), t.count) for read in (lower, upper)]
        write(t, lanes, np.stack(pair, axis=1).reshape(-1))

    return step


def _pack(decoder: Decoder, op: Instruction) -> Step:
    """`cvt.pack.sat`: two saturated integers below the upper part of a third operand."""
    b32, s32 = SCALARS["b32"], SCALARS["s32"]
    part = SCALARS[op.modifiers[2]]
    clamp = _conversion(op, part, s32)
    if part.bits not in (8, 16):
        raise decoder.unknown(op)

    def compute(a: Any, b: Any, c: Any = None) -> Any:
        first, second = (clamp(x).view(part.raw).astype(np.uint32) for x in (a, b))
        kept = np.uint32(0) if c is None or part.bits == 16 else c << np.uint32(16)
        return kept | first << np.uint32(part.bits) | second

    sources = [s32, s32, b32][: len(op.operands) - 1]
    return pointwise(decoder, op, compute, b32, sources)


RULES: dict[str, Rule] = {"cvt": _convert}
"""The rule for conversions."""
