"""Branches, barriers and the end of threads (PTX ISA 9.7.12 and 9.7.13)."""

from __future__ import annotations

from typing import Any

import numpy as np

from lamina.targets.reference.dtypes import Array
from lamina.testing.ptx import schedule
from lamina.testing.ptx.barriers import Finish
from lamina.testing.ptx.clocks import WARP
from lamina.testing.ptx.decoder import Decoder, Read, Step
from lamina.testing.ptx.lanes import Lanes
from lamina.testing.ptx.rules.membership import members
from lamina.testing.ptx.rules.rule import Rule
from lamina.testing.ptx.scalars import SCALARS
from lamina.testing.ptx.syntax import Instruction, Symbol
from lamina.testing.ptx.threads import Threads

U32, PRED = SCALARS["u32"], SCALARS["pred"]


def _branch(decoder: Decoder, op: Instruction) -> Step:
    target = decoder.label(op, op.operands[0])
    if op.guard is None:

        def jump(t: Threads, lanes: Lanes) -> bool:
            t.go_on(target, lanes)
            return True

        return jump
    guard = decoder.read(op, op.guard, PRED)

    def branch(t: Threads, lanes: Lanes) -> bool:
        taken = lanes.narrow(guard(t))
        if not taken.count:
            return False
        t.go_on(target, taken)
        if taken is not lanes:
            t.go_on(t.pc + 1, lanes.without(taken))
        return True

    return branch


def _branch_by_index(decoder: Decoder, op: Instruction) -> Step:
    index = decoder.read(op, op.operands[0], U32)
    table = op.operands[1]
    assert isinstance(table, Symbol)
    targets = [decoder.label(op, Symbol(name)) for name in decoder.tables[table.name]]

    def branch(t: Threads, lanes: Lanes) -> bool:
        chosen = np.broadcast_to(index(t), t.count)
        for number, target in enumerate(targets):
            part = lanes.narrow(chosen == number)
            if part.count:
                t.go_on(target, part)
        return True

    return branch


def _exit(decoder: Decoder, op: Instruction) -> Step:
    def step(t: Threads, lanes: Lanes) -> bool:
        schedule.end(t, lanes)
        return True

    return step


def _trap(decoder: Decoder, op: Instruction) -> Step:
    def step(t: Threads, lanes: Lanes) -> None:
        raise t.fault("trap", f"the kernel executed {op.spelling}", int(lanes.index[0]))

    return step


def _barrier(decoder: Decoder, op: Instruction) -> Step:
    words = [word for word in op.modifiers if word not in ("cta", "aligned")]
    if words and words[0] == "warp":
        return _warp_barrier(decoder, op)
    if "cluster" in words or not words or words[0] not in ("sync", "arrive", "red"):
        raise decoder.unknown(op)
    operands = list(op.operands)
    finish: Finish | None = None
    if words[0] == "red":
        finish = _reduction(decoder, op, words[1], decoder.read(op, operands.pop(), PRED))
        operands.pop(0)
    name = decoder.read(op, operands[0], U32)
    count = decoder.read(op, operands[1], U32) if len(operands) > 1 else None
    if words[0] == "arrive":

        def arrive(t: Threads, lanes: Lanes) -> None:
            t.barriers.arrive(t, lanes, _uniform(t, lanes, name))

        return arrive

    def wait(t: Threads, lanes: Lanes) -> bool:
        needed = None if count is None else _uniform(t, lanes, count)
        needed = None if needed == t.per_block else needed
        return t.barriers.wait(t, lanes, _uniform(t, lanes, name), needed, finish)

    return wait


def _uniform(t: Threads, lanes: Lanes, read: Read) -> int:
    values: Array = lanes.pick(read(t))
    if (values != values[0]).any():
        who = int(lanes.index[(values != values[0]).argmax()])
        raise t.fault("barrier", "threads wait at barriers of different numbers here", who)
    return int(values[0])


def _reduction(decoder: Decoder, op: Instruction, kind: str, source: Read) -> Finish:
    result = U32 if kind == "popc" else PRED
    write = decoder.write(op, op.operands[0], result)
    over: dict[str, Any] = {"popc": np.sum, "and": np.all, "or": np.any}

    def finish(t: Threads, lanes: Lanes) -> None:
        values = np.broadcast_to(source(t), t.count)
        neutral = kind == "and"
        kept = np.where(lanes.mask, values, neutral).reshape(t.blocks, -1)
        write(t, lanes, np.repeat(over[kind](kept, axis=1), t.per_block))

    return finish


def _warp_barrier(decoder: Decoder, op: Instruction) -> Step:
    mask = decoder.read(op, op.operands[0], U32)

    def step(t: Threads, lanes: Lanes) -> None:
        named = members(t, lanes, mask(t))
        whole = named == np.repeat(t.everybody.bits, WARP)
        warps = lanes.index // WARP
        t.clocks.meet_warps(np.unique(warps[whole[lanes.index]]))
        for warp in np.unique(warps[~whole[lanes.index]]):
            first = int(warp) * WARP
            for word in np.unique(named[first : first + WARP][lanes.by_warp[warp]]):
                t.clocks.meet_lanes(first + np.flatnonzero(int(word) >> np.arange(WARP) & 1))

    return step


RULES: dict[str, Rule] = {
    "bra": _branch,
    "brx": _branch_by_index,
    "ret": _exit,
    "exit": _exit,
    "trap": _trap,
    "bar": _barrier,
    "barrier": _barrier,
}
"""Rules for the flow of control."""
