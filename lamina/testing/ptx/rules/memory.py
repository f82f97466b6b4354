"""Loads and stores (PTX ISA 9.7.9.8 and on)."""

from __future__ import annotations

from typing import Any

import numpy as np

from lamina.testing.ptx.access import gather, scatter, space_of
from lamina.testing.ptx.decoder import Decoder, Step
from lamina.testing.ptx.lanes import Lanes
from lamina.testing.ptx.memory import BASE
from lamina.testing.ptx.rules.rule import Rule
from lamina.testing.ptx.scalars import RAW, Scalar
from lamina.testing.ptx.syntax import Instruction, Operand, Vector
from lamina.testing.ptx.threads import Threads


def _items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


def _untyped(scalar: Scalar) -> Scalar:
    """Return the type with the same bits and sign that is no float and not packed."""
    return scalar if scalar.signed else Scalar(scalar.name, scalar.bits, "b", RAW[scalar.bits])


def _load(decoder: Decoder, op: Instruction) -> Step:
    scalar = _untyped(decoder.scalar(op))
    unit = scalar.bits // 8
    address = decoder.address(op, op.operands[1])
    writes = [decoder.write(op, item, scalar) for item in _items(op.operands[0])]
    space = space_of(op.modifiers)

    def step(t: Threads, lanes: Lanes) -> None:
        where = address(t)
        count = len(writes)
        if np.ndim(where) == 0 and where >= BASE:
            found = gather(t, space, lanes.index[:1], np.array([where]), unit, count)
            for write, value in zip(writes, found[0].view(scalar.dtype), strict=True):
                write(t, lanes, value)
            return
        found = gather(t, space, lanes.index, lanes.pick(where), unit, count)
        for place, write in enumerate(writes):
            write(t, lanes, spread(t, lanes, found[:, place].view(scalar.dtype)))

    return step


def spread(t: Threads, lanes: Lanes, values: Any) -> Any:
    """Return an array over all threads that holds the values of those that execute."""
    if lanes.full:
        return values
    found = np.zeros(t.count, values.dtype)
    found[lanes.index] = values
    return found


def _store(decoder: Decoder, op: Instruction) -> Step:
    scalar = _untyped(decoder.scalar(op))
    address = decoder.address(op, op.operands[0])
    reads = [decoder.read(op, item, scalar) for item in _items(op.operands[1])]
    space = space_of(op.modifiers)

    def step(t: Threads, lanes: Lanes) -> None:
        values = np.empty((lanes.count, len(reads)), RAW[scalar.bits])
        for place, read in enumerate(reads):
            values[:, place] = np.asarray(lanes.pick(read(t))).view(RAW[scalar.bits])
        scatter(t, space, lanes.index, lanes.pick(address(t)), values)

    return step


RULES: dict[str, Rule] = {"ld": _load, "ldu": _load, "st": _store}
"""Rules for loads and stores."""
