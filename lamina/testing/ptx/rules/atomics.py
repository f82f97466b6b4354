"""Atomic operations on memory (PTX ISA 9.7.13.5): threads take turns in ascending order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lamina.targets.reference.dtypes import Array
from lamina.targets.reference.numerics import choose
from lamina.testing.ptx.access import place, space_of
from lamina.testing.ptx.decoder import Decoder, Read, Step
from lamina.testing.ptx.lanes import Lanes
from lamina.testing.ptx.layout import SHARED_WINDOW, WINDOW
from lamina.testing.ptx.rules.memory import spread
from lamina.testing.ptx.rules.rule import Rule
from lamina.testing.ptx.scalars import Scalar
from lamina.testing.ptx.syntax import Instruction
from lamina.testing.ptx.threads import Threads

Update = Callable[[Any, Any, Any], Any]


def _add(old: Any, b: Any, c: Any) -> Any:
    if old.dtype.kind in "iu" or old.dtype.itemsize > 2:
        return old + b
    return (old.astype(np.float32) + b.astype(np.float32)).astype(old.dtype)


UPDATES: dict[str, Update] = {
    "add": _add,
    "min": lambda old, b, c: np.minimum(old, b) if old.dtype.kind in "iu" else np.fmin(old, b),
    "max": lambda old, b, c: np.maximum(old, b) if old.dtype.kind in "iu" else np.fmax(old, b),
    "and": lambda old, b, c: old & b,
    "or": lambda old, b, c: old | b,
    "xor": lambda old, b, c: old ^ b,
    "exch": lambda old, b, c: b,
    "cas": lambda old, b, c: choose(old == b, c, old),
    "inc": lambda old, b, c: choose(old >= b, 0, old + 1),
    "dec": lambda old, b, c: choose((old == 0) | (old > b), b, old - 1),
}
"""The new value of memory, given the old one and the operands."""


def _turns(addresses: Array) -> Array:
    """Return how many earlier threads use the address of each."""
    order = np.argsort(addresses, kind="stable")
    ordered = addresses[order]
    fresh = np.concatenate(([True], ordered[1:] != ordered[:-1]))
    starts = np.maximum.accumulate(np.where(fresh, np.arange(len(ordered)), 0))
    found: Array = np.empty(len(addresses), np.int64)
    found[order] = np.arange(len(ordered)) - starts
    return found


def _atomic(decoder: Decoder, op: Instruction) -> Step:
    scalar = decoder.scalar(op)
    update = next((UPDATES[word] for word in op.modifiers if word in UPDATES), None)
    if update is None or {"v2", "v4", "v8"} & set(op.modifiers):
        raise decoder.unknown(op)
    operands = list(op.operands)
    write = decoder.write(op, operands.pop(0), scalar) if op.name == "atom" else None
    address = decoder.address(op, operands.pop(0))
    reads = [decoder.read(op, operand, scalar) for operand in operands]
    space = space_of(op.modifiers)

    def step(t: Threads, lanes: Lanes) -> None:
        who, addresses = lanes.index, lanes.pick(address(t))
        old = _perform(t, space, who, addresses, scalar, update, _values(t, lanes, reads, scalar))
        if write is not None:
            write(t, lanes, spread(t, lanes, old).view(scalar.dtype))

    return step


def _values(t: Threads, lanes: Lanes, reads: list[Read], scalar: Scalar) -> list[Array]:
    found: list[Array] = []
    for read in reads:
        value = np.ascontiguousarray(read(t))
        if scalar.packed > 1:
            value = np.broadcast_to(value, t.count * scalar.packed).copy().view(scalar.raw)
        found.append(np.ascontiguousarray(lanes.pick(value[0] if value.size == 1 else value)))
    return found


def _perform(
    t: Threads,
    space: str,
    who: Array,
    addresses: Array,
    scalar: Scalar,
    update: Update,
    values: list[Array],
) -> Array:
    if space == "":
        shared = (addresses >= SHARED_WINDOW) & (addresses < SHARED_WINDOW + WINDOW)
        space = "shared" if shared.all() else "global"
        addresses = addresses - SHARED_WINDOW if shared.all() else addresses
    unit = scalar.bits // 8
    wrong = addresses % unit != 0
    if wrong.any():
        what = f"an atomic access of {unit} bytes is misaligned"
        raise t.fault("alignment", what, int(who[wrong.argmax()]))
    rows, at = place(t, space, who, addresses, unit, 1, write=True, atomic=True)
    memory = rows[:, 0]
    old: Array = np.empty(len(who), scalar.raw)
    turns = _turns(at)
    for turn in range(int(turns.max()) + 1):
        now = turns == turn
        before = memory[at[now]]
        old[now] = before
        given = [value[now].view(scalar.dtype) for value in values]
        new = update(before.view(scalar.dtype), given[0], given[-1])
        memory[at[now]] = np.ascontiguousarray(new, scalar.dtype).view(scalar.raw)
    return old


RULES: dict[str, Rule] = {"atom": _atomic, "red": _atomic}
"""Rules for atomic operations."""
