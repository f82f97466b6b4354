"""Barriers in shared memory (PTX ISA 9.7.13.15)."""

from __future__ import annotations

from typing import Any

import numpy as np

from lamina.targets.reference.dtypes import Array
from lamina.targets.reference.numerics import choose
from lamina.testing.ptx.access import shared_places
from lamina.testing.ptx.decoder import Decoder, Read, Step
from lamina.testing.ptx.lanes import Lanes
from lamina.testing.ptx.layout import SHARED_WINDOW
from lamina.testing.ptx.mbarriers import MBarrier, Sleeper
from lamina.testing.ptx.rules.rule import Rule
from lamina.testing.ptx.scalars import SCALARS
from lamina.testing.ptx.syntax import Address, Instruction, Sink
from lamina.testing.ptx.threads import Threads

U32, B64, PRED = SCALARS["u32"], SCALARS["b64"], SCALARS["pred"]

_SIZE = 8


def places_of(t: Threads, lanes: Lanes, address: Read) -> Array:
    """Return where the barriers of the executing threads lie. Raises `KernelFault`."""
    addresses = lanes.pick(address(t))
    addresses = choose(addresses >= SHARED_WINDOW, addresses - SHARED_WINDOW, addresses)
    wrong = addresses % _SIZE != 0
    if wrong.any():
        raise t.fault("alignment", "an mbarrier is misaligned", int(lanes.index[wrong.argmax()]))
    return shared_places(t, lanes.index, addresses, _SIZE)


def barrier_at(t: Threads, place: int, who: int) -> MBarrier:
    """Return the barrier at a place. Raises `KernelFault` if none was made there."""
    found = t.mbarriers.find(place)
    if found is None:
        raise t.fault("barrier", "no mbarrier was initialised here", who)
    return found


def _decode(decoder: Decoder, op: Instruction) -> Step:
    kinds = {
        "init": _init,
        "inval": _invalidate,
        "arrive": _arrive,
        "expect_tx": _expect,
        "try_wait": _wait,
        "test_wait": _wait,
    }
    if op.modifiers[0] not in kinds or "noComplete" in op.modifiers:
        raise decoder.unknown(op)
    return kinds[op.modifiers[0]](decoder, op)


def _init(decoder: Decoder, op: Instruction) -> Step:
    address = decoder.address(op, op.operands[0])
    count = decoder.read(op, op.operands[1], U32)

    def step(t: Threads, lanes: Lanes) -> None:
        places, who = places_of(t, lanes, address), lanes.index
        t.raise_for(t.shared.write(who, places, _SIZE), who, lanes.pick(address(t)))
        for place, number in zip(places, lanes.pick(count(t)), strict=True):
            t.mbarriers.init(int(place), int(number))

    return step


def _invalidate(decoder: Decoder, op: Instruction) -> Step:
    address = decoder.address(op, op.operands[0])

    def step(t: Threads, lanes: Lanes) -> None:
        for place in places_of(t, lanes, address):
            t.mbarriers.forget(int(place))

    return step


def _note(t: Threads, lanes: Lanes, places: Array, addresses: Array) -> None:
    """A barrier is used as by atomic accesses: what made it has to be known."""
    t.raise_for(t.shared.known(lanes.index, places, _SIZE), lanes.index, addresses)


def _arrive(decoder: Decoder, op: Instruction) -> Step:
    operands = list(op.operands)
    result = operands.pop(0) if not isinstance(operands[0], Address) else Sink()
    write = decoder.write(op, result, B64)
    address = decoder.address(op, operands.pop(0))
    number = decoder.read(op, operands[0], U32) if operands else None
    expects = "expect_tx" in op.modifiers

    def step(t: Threads, lanes: Lanes) -> None:
        places = places_of(t, lanes, address)
        _note(t, lanes, places, lanes.pick(address(t)))
        numbers: Any = lanes.pick(np.uint32(1) if number is None else number(t))
        tokens = np.zeros(t.count, np.uint64)
        for who, place, given in zip(lanes.index, places, numbers, strict=True):
            barrier = barrier_at(t, int(place), int(who))
            tokens[who] = barrier.phase
            barrier.missing += int(given) if expects else 0
            count = 1 if expects else int(given)
            if count > barrier.pending:
                raise t.fault("barrier", "more arrivals than the mbarrier expects", int(who))
            t.mbarriers.arrive(t, int(place), count, t.clocks.known_to(int(who)))
        write(t, lanes, tokens)

    return step


def _expect(decoder: Decoder, op: Instruction) -> Step:
    address = decoder.address(op, op.operands[0])
    number = decoder.read(op, op.operands[1], U32)

    def step(t: Threads, lanes: Lanes) -> None:
        numbers = lanes.pick(number(t))
        for who, place, given in zip(
            lanes.index, places_of(t, lanes, address), numbers, strict=True
        ):
            barrier_at(t, int(place), int(who)).missing += int(given)

    return step


def _wait(decoder: Decoder, op: Instruction) -> Step:
    write = decoder.write(op, op.operands[0], PRED)
    address = decoder.address(op, op.operands[1])
    parity = "parity" in op.modifiers
    awaited = decoder.read(op, op.operands[2], U32 if parity else B64)

    def step(t: Threads, lanes: Lanes) -> bool:
        places = places_of(t, lanes, address)
        _note(t, lanes, places, lanes.pick(address(t)))
        wanted = lanes.pick(awaited(t)).astype(np.int64) & 1
        through = np.zeros(t.count, np.bool_)
        for place, phase in sorted(set(zip(places.tolist(), wanted.tolist(), strict=True))):
            who = lanes.index[(places == place) & (wanted == phase)]
            barrier = barrier_at(t, place, int(who[0]))
            if barrier.phase & 1 == phase:
                mask = np.zeros(t.count, np.bool_)
                mask[who] = True
                t.mbarriers.sleep(Sleeper(place, phase, Lanes(mask), t.pc))
                continue
            through[who] = True
            if barrier.known is not None:
                t.clocks.learn(who, barrier.known)
        passed = lanes.narrow(through)
        write(t, passed, True)
        if passed is lanes:
            return False
        if passed.count:
            t.go_on(t.pc + 1, passed)
        return True

    return step


RULES: dict[str, Rule] = {"mbarrier": _decode}
"""The rule for barriers in shared memory."""
