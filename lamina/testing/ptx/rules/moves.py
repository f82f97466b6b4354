"""Moves between registers, packing and unpacking, and addresses (PTX ISA 9.7.9)."""

from __future__ import annotations

from typing import Any

import numpy as np

from lamina.testing.ptx.decoder import Decoder, Step
from lamina.testing.ptx.lanes import Lanes
from lamina.testing.ptx.layout import LOCAL_WINDOW, SHARED_WINDOW, WINDOW
from lamina.testing.ptx.rules.rule import Rule, nothing, pointwise
from lamina.testing.ptx.scalars import SCALARS, Scalar
from lamina.testing.ptx.syntax import Instruction, Integer, Real, Vector
from lamina.testing.ptx.threads import Threads

_WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}


def _move(decoder: Decoder, op: Instruction) -> Step:
    scalar = decoder.scalar(op)
    if isinstance(op.operands[0], Vector):
        return _unpack(decoder, op, op.operands[0], scalar)
    if isinstance(op.operands[1], Vector):
        return _pack(decoder, op, op.operands[1], scalar)
    source = op.operands[1]
    if isinstance(source, (Real, Integer)) and scalar.is_float:
        return pointwise(decoder, op, lambda a: a, scalar, [scalar])
    raw = SCALARS[f"b{scalar.bits}"] if scalar.bits > 1 else scalar
    return pointwise(decoder, op, lambda a: a, raw, [raw])


def _part(scalar: Scalar, vector: Vector) -> Scalar:
    return SCALARS[f"b{scalar.bits // len(vector.items)}"]


def _pack(decoder: Decoder, op: Instruction, vector: Vector, scalar: Scalar) -> Step:
    part = _part(scalar, vector)
    whole = SCALARS[f"b{scalar.bits}"]
    write = decoder.write(op, op.operands[0], whole)
    reads = [decoder.read(op, item, part) for item in vector.items]

    def step(t: Threads, lanes: Lanes) -> None:
        y: Any = whole.dtype.type(0)
        for place, read in enumerate(reads):
            y = y | read(t).astype(whole.dtype) << whole.dtype.type(place * part.bits)
        write(t, lanes, y)

    return step


def _unpack(decoder: Decoder, op: Instruction, vector: Vector, scalar: Scalar) -> Step:
    part = _part(scalar, vector)
    whole = SCALARS[f"b{scalar.bits}"]
    read = decoder.read(op, op.operands[1], whole)
    writes = [decoder.write(op, item, part) for item in vector.items]

    def step(t: Threads, lanes: Lanes) -> None:
        x = np.array(read(t))
        for place, write in enumerate(writes):
            write(t, lanes, (x >> whole.dtype.type(place * part.bits)).astype(part.dtype))

    return step


def _convert_address(decoder: Decoder, op: Instruction) -> Step:
    """`cvta`: between an address in a space and the generic one."""
    scalar = decoder.scalar(op)
    space = next(word for word in op.modifiers if word not in ("to", scalar.name))
    start = _WINDOWS.get(space.split("::")[0], 0)
    if "to" in op.modifiers:
        start = -start
    by = np.array(start & ((1 << 64) - 1), np.uint64).astype(scalar.dtype)
    return pointwise(decoder, op, lambda a: a + by, scalar, [scalar])


def _is_space(decoder: Decoder, op: Instruction) -> Step:
    """`isspacep`: whether a generic address lies in a space."""
    space = op.modifiers[-1].split("::")[0]

    def compute(a: Any) -> Any:
        inside = {name: (a >= start) & (a < start + WINDOW) for name, start in _WINDOWS.items()}
        if space in inside:
            return inside[space]
        elsewhere = ~(inside["shared"] | inside["local"])
        return elsewhere if space == "global" else elsewhere & False

    return pointwise(decoder, op, compute, SCALARS["pred"], [SCALARS["u64"]])


def _fence(decoder: Decoder, op: Instruction) -> Step:
    """`fence`: one between proxies makes writes visible to asynchronous accesses."""
    if op.modifiers[:2] != ("proxy", "async"):
        return nothing(decoder, op)

    def step(t: Threads, lanes: Lanes) -> None:
        t.fenced[lanes.index] = t.clocks.tick()

    return step


def _policy(decoder: Decoder, op: Instruction) -> Step:
    """`createpolicy`: an opaque number that caches would understand."""
    write = decoder.write(op, op.operands[0], SCALARS["b64"])
    return lambda t, lanes: write(t, lanes, np.uint64(0))


RULES: dict[str, Rule] = {
    "mov": _move,
    "cvta": _convert_address,
    "isspacep": _is_space,
    "createpolicy": _policy,
    "prefetch": nothing,
    "prefetchu": nothing,
    "discard": nothing,
    "applypriority": nothing,
    "nanosleep": nothing,
    "membar": nothing,
    "fence": _fence,
    "pmevent": nothing,
    "griddepcontrol": nothing,
}
"""Rules for moves, and for hints that change no value."""
