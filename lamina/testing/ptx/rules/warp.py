"""What the threads of a warp tell each other (PTX ISA 9.7.9.6, 9.7.13)."""

from __future__ import annotations

from typing import Any

import numpy as np

from lamina.targets.reference.dtypes import Array
from lamina.testing.ptx.clocks import WARP
from lamina.testing.ptx.decoder import Decoder, Step
from lamina.testing.ptx.lanes import Lanes
from lamina.testing.ptx.rules.membership import members
from lamina.testing.ptx.rules.rule import Rule
from lamina.testing.ptx.scalars import SCALARS, Scalar
from lamina.testing.ptx.syntax import Both, Instruction, Operand, Sink
from lamina.testing.ptx.threads import Threads

U32, PRED = SCALARS["u32"], SCALARS["pred"]


def _two(operand: Operand) -> tuple[Operand, Operand]:
    return (operand.first, operand.second) if isinstance(operand, Both) else (operand, Sink())


def _shuffle(decoder: Decoder, op: Instruction) -> Step:
    if op.modifiers[0] != "sync" or op.modifiers[1] not in ("up", "down", "bfly", "idx"):
        raise decoder.unknown(op)
    mode = op.modifiers[1]
    scalar = SCALARS["b32"]
    first, second = _two(op.operands[0])
    write, write_inside = decoder.write(op, first, scalar), decoder.write(op, second, PRED)
    source = decoder.read(op, op.operands[1], scalar)
    by, clamp, mask = (decoder.read(op, operand, U32) for operand in op.operands[2:5])

    def step(t: Threads, lanes: Lanes) -> None:
        named = members(t, lanes, mask(t))
        number = np.arange(t.count)
        lane = number % WARP
        from_lane, inside = _source(mode, lane, by(t), clamp(t))
        values = np.broadcast_to(source(t), t.count)[number - lane + from_lane]
        there = named >> from_lane.astype(np.uint32) & 1 != 0
        poison = np.uint32(int.from_bytes(bytes([t.poison]) * 4, "little"))
        write(t, lanes, np.where(there, values, poison))
        write_inside(t, lanes, inside)

    return step


def _source(mode: str, lane: Array, by: Any, clamp: Any) -> tuple[Array, Array]:
    """Return the lane that each reads from, and whether it is inside its segment."""
    by = np.asarray(by, np.int64) & 31
    limit = np.asarray(clamp, np.int64) & 31
    segment = np.asarray(clamp, np.int64) >> 8 & 31
    last = (lane & segment) | (limit & ~segment)
    wanted = {
        "up": lane - by,
        "down": lane + by,
        "bfly": lane ^ by,
        "idx": (lane & segment) | (by & ~segment),
    }[mode]
    inside = wanted >= last if mode == "up" else wanted <= last
    return np.where(inside, wanted, lane), inside


def _ballot(t: Threads, lanes: Lanes, condition: Any) -> Array:
    """Return for each thread the word of the threads of its warp for which a condition holds."""
    return np.repeat(Lanes(lanes.mask & condition).bits, WARP)


def _vote(decoder: Decoder, op: Instruction) -> Step:
    if op.modifiers[0] != "sync":
        raise decoder.unknown(op)
    mode = op.modifiers[1]
    write = decoder.write(op, op.operands[0], U32 if mode == "ballot" else PRED)
    source = decoder.read(op, op.operands[1], PRED)
    mask = decoder.read(op, op.operands[2], U32)

    def step(t: Threads, lanes: Lanes) -> None:
        named = members(t, lanes, mask(t))
        votes = _ballot(t, lanes, source(t)) & named
        answers = {
            "ballot": votes,
            "all": votes == named,
            "any": votes != 0,
            "uni": (votes == named) | (votes == 0),
        }
        write(t, lanes, answers[mode])

    return step


def _match(decoder: Decoder, op: Instruction) -> Step:
    mode, scalar = op.modifiers[0], decoder.scalar(op)
    first, second = _two(op.operands[0])
    write, write_all = decoder.write(op, first, U32), decoder.write(op, second, PRED)
    source = decoder.read(op, op.operands[1], scalar)
    mask = decoder.read(op, op.operands[2], U32)

    def step(t: Threads, lanes: Lanes) -> None:
        named = members(t, lanes, mask(t))
        values = np.broadcast_to(source(t), t.count).reshape(-1, WARP)
        same = np.ascontiguousarray(values[:, :, None] == values[:, None, :])
        words = np.packbits(same, axis=2, bitorder="little").view(np.uint32).ravel() & named
        if mode == "any":
            write(t, lanes, words)
            return
        agreed = words == named
        write(t, lanes, np.where(agreed, named, np.uint32(0)))
        write_all(t, lanes, agreed)

    return step


def _identity(kind: str, scalar: Scalar) -> Any:
    if kind in ("add", "or", "xor"):
        return scalar.dtype.type(0)
    if kind == "and":
        return ~scalar.dtype.type(0)
    if scalar.is_float:
        return scalar.dtype.type(np.inf if kind == "min" else -np.inf)
    info = np.iinfo(scalar.dtype)
    return scalar.dtype.type(info.max if kind == "min" else info.min)


def _reduce(decoder: Decoder, op: Instruction) -> Step:
    scalar = decoder.scalar(op)
    kind = op.modifiers[1]
    over: Any = {
        "add": np.add,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }[kind]
    if scalar.is_float and set(op.modifiers) & {"abs", "NaN"}:
        raise decoder.unknown(op)
    over = {"min": np.fmin, "max": np.fmax}[kind] if scalar.is_float else over
    neutral = _identity(kind, scalar)
    write = decoder.write(op, op.operands[0], scalar)
    source = decoder.read(op, op.operands[1], scalar)
    mask = decoder.read(op, op.operands[2], U32)

    def step(t: Threads, lanes: Lanes) -> None:
        named = members(t, lanes, mask(t))
        chosen = named[:, None] >> np.arange(WARP, dtype=np.uint32) & 1 != 0
        values = np.broadcast_to(source(t), t.count).reshape(-1, WARP)
        terms = np.where(chosen, np.repeat(values, WARP, axis=0), neutral)
        write(t, lanes, over.reduce(terms, axis=1, dtype=scalar.dtype))

    return step


def _active(decoder: Decoder, op: Instruction) -> Step:
    write = decoder.write(op, op.operands[0], U32)
    return lambda t, lanes: write(t, lanes, np.repeat(lanes.bits, WARP))


def _elect(decoder: Decoder, op: Instruction) -> Step:
    """`elect.sync`: the lowest thread of the mask is the leader."""
    first, second = _two(op.operands[0])
    write, write_leader = decoder.write(op, first, U32), decoder.write(op, second, PRED)
    mask = decoder.read(op, op.operands[1], U32)

    def step(t: Threads, lanes: Lanes) -> None:
        named = members(t, lanes, mask(t))
        lowest = named & (~named + np.uint32(1))
        leader = np.bitwise_count(lowest - np.uint32(1)).astype(np.uint32)
        write(t, lanes, leader)
        write_leader(t, lanes, leader == np.arange(t.count) % WARP)

    return step


RULES: dict[str, Rule] = {
    "shfl": _shuffle,
    "vote": _vote,
    "match": _match,
    "redux": _reduce,
    "activemask": _active,
    "elect": _elect,
}
"""Rules for what happens among the threads of a warp."""
