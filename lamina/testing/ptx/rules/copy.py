"""Asynchronous copies from global to shared memory (PTX ISA 9.7.9.25)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from lamina.targets.reference.dtypes import Array
from lamina.testing.ptx.access import gather, shared_places
from lamina.testing.ptx.copies import Copy
from lamina.testing.ptx.decoder import Decoder, Step
from lamina.testing.ptx.lanes import Lanes
from lamina.testing.ptx.mbarriers import MBarrier
from lamina.testing.ptx.rules import bulk
from lamina.testing.ptx.rules.mbarrier import barrier_at, places_of
from lamina.testing.ptx.rules.rule import Rule
from lamina.testing.ptx.scalars import SCALARS
from lamina.testing.ptx.syntax import Instruction, Integer
from lamina.testing.ptx.threads import Threads

U32 = SCALARS["u32"]

_SIZES = (4, 8, 16)


def _decode(decoder: Decoder, op: Instruction) -> Step:
    forms: dict[str, Rule] = {
        "ca": _copy,
        "cg": _copy,
        "commit_group": lambda decoder, op: _commit,
        "wait_group": _wait,
        "wait_all": _wait,
        "bulk": bulk.decode,
        "mbarrier": _arrive,
    }
    if op.modifiers[0] != "async" or op.modifiers[1] not in forms:
        raise decoder.unknown(op)
    return forms[op.modifiers[1]](decoder, op)


def _copy(decoder: Decoder, op: Instruction) -> Step:
    target, source = (decoder.address(op, operand) for operand in op.operands[:2])
    size = op.operands[2]
    if not isinstance(size, Integer) or size.value not in _SIZES:
        raise decoder.unknown(op)
    count = size.value
    given = None
    if len(op.operands) > 3 and "cache_hint" not in "".join(op.modifiers):
        given = decoder.read(op, op.operands[3], U32)

    def step(t: Threads, lanes: Lanes) -> None:
        who = lanes.index
        addresses = lanes.pick(target(t))
        length = np.full(len(who), count) if given is None else lanes.pick(given(t))
        data = _fetch(t, who, lanes.pick(source(t)), np.minimum(length, count), count)
        wrong = addresses % count != 0
        if wrong.any():
            what = f"a copy of {count} bytes to a misaligned shared address"
            raise t.fault("alignment", what, int(who[wrong.argmax()]))
        places = shared_places(t, who, addresses, count)
        if t.traffic is not None:
            t.traffic.note_shared(t.line, who, addresses, count)
        t.raise_for(t.shared.begin_copy(who, places, count), who, addresses)
        t.shared.rows(1, count)[places // count] = t.poison
        t.copies.start(who, addresses, places, data)

    return step


def _fetch(t: Threads, who: Array, addresses: Array, length: Any, count: int) -> Array:
    """Return what is copied: the first `length` bytes, and zeros after them."""
    data: Array = np.zeros((len(who), count), np.uint8)
    whole = length == count
    if whole.any():
        chosen = np.flatnonzero(whole)
        words = gather(t, "global", who[chosen], addresses[chosen], 4, count // 4)
        data[chosen] = words.view(np.uint8)
    for octet in range(count):
        part = np.flatnonzero(~whole & (length > octet))
        if not len(part):
            break
        data[part, octet] = gather(t, "global", who[part], addresses[part] + octet, 1, 1)[:, 0]
    return data


def _commit(t: Threads, lanes: Lanes) -> None:
    t.copies.committed[lanes.index] += 1


def _arrive(decoder: Decoder, op: Instruction) -> Step:
    """`cp.async.mbarrier.arrive.noinc`: arrive once all copies of the thread so far are done."""
    if op.modifiers[2:4] != ("arrive", "noinc"):
        raise decoder.unknown(op)
    address = decoder.address(op, op.operands[0])

    def step(t: Threads, lanes: Lanes) -> None:
        for who, place in zip(lanes.index, places_of(t, lanes, address), strict=True):
            barrier = barrier_at(t, int(place), int(who))
            barrier.copies.append((0, _landing(t, int(who), barrier)))

    return step


def _landing(t: Threads, who: int, barrier: MBarrier) -> Callable[[], Array]:
    until = t.copies.number()

    def land() -> Array:
        mask = np.zeros(t.count, np.bool_)
        mask[who] = True
        _finish(t, t.copies.arrive(mask, None, until))
        barrier.pending -= 1
        return t.clocks.known_to(who)

    return land


def _finish(t: Threads, copies: Iterable[Copy]) -> None:
    """Let copies write what they bring."""
    for copy in copies:
        size = copy.data.shape[1]
        t.raise_for(t.shared.end_copy(copy.who, copy.places, size), copy.who, copy.addresses)
        t.shared.rows(1, size)[copy.places // size] = copy.data


def _wait(decoder: Decoder, op: Instruction) -> Step:
    newest = None
    if op.modifiers[1] == "wait_group":
        operand = op.operands[0]
        if not isinstance(operand, Integer):
            raise decoder.unknown(op)
        newest = operand.value

    def step(t: Threads, lanes: Lanes) -> None:
        _finish(t, t.copies.arrive(lanes.mask, newest))

    return step


RULES: dict[str, Rule] = {"cp": _decode}
"""The rule for asynchronous copies."""
