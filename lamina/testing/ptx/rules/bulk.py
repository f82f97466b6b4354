"""Copies of many bytes by one thread, from and to shared memory (PTX ISA 9.7.9.26 and 27)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lamina.targets.reference.dtypes import Array
from lamina.testing.ptx.access import gather, scatter, shared_places
from lamina.testing.ptx.decoder import Decoder, Read, Step
from lamina.testing.ptx.descriptors import swizzled
from lamina.testing.ptx.lanes import Lanes
from lamina.testing.ptx.layout import SHARED_WINDOW
from lamina.testing.ptx.rules.mbarrier import barrier_at, places_of
from lamina.testing.ptx.scalars import SCALARS
from lamina.testing.ptx.syntax import Box, Instruction
from lamina.testing.ptx.tensor_map import SIZE, TensorMap
from lamina.testing.ptx.threads import Threads

U32, S32 = SCALARS["u32"], SCALARS["s32"]
UNIT = 16


def decode(decoder: Decoder, op: Instruction) -> Step:
    """Decode `cp.async.bulk…`."""
    words = op.modifiers[2:]
    if words[0] in ("commit_group", "wait_group"):
        return lambda t, lanes: None
    if words[0] in ("prefetch", "reduce") or "multicast::cluster" in words or "im2col" in words:
        raise decoder.unknown(op)
    tensor = words[0] == "tensor"
    spaces = [word.split("::")[0] for word in words if word.split("::")[0] in _SPACES]
    if spaces == ["shared", "global"]:
        return _load_box(decoder, op) if tensor else _load(decoder, op)
    if spaces == ["global", "shared"]:
        return _store_box(decoder, op) if tensor else _store(decoder, op)
    raise decoder.unknown(op)


_SPACES = ("shared", "global")


@dataclass(frozen=True)
class _Target:
    """Where the bytes of a copy go: the thread, the addresses and places of units of 16 bytes."""

    who: Array
    addresses: Array
    places: Array

    def begin(self, t: Threads) -> None:
        t.raise_for(t.shared.begin_copy(self.who, self.places, UNIT), self.who, self.addresses)
        t.shared.rows(1, UNIT)[self.places // UNIT] = t.poison

    def land(self, t: Threads, data: Array) -> Array:
        t.raise_for(t.shared.end_copy(self.who, self.places, UNIT), self.who, self.addresses)
        t.shared.asynchronous(self.places, UNIT)
        t.shared.rows(1, UNIT)[self.places // UNIT] = data
        return t.clocks.known_to(int(self.who[0]))


def _target(t: Threads, who: int, address: int, size: int, width: int = 1) -> _Target:
    if address >= SHARED_WINDOW:
        address -= SHARED_WINDOW
    if address % UNIT or size % UNIT:
        what = f"a copy of {size} bytes at shared address {address:#x}: multiples of {UNIT}"
        raise t.fault("alignment", what, who)
    addresses = swizzled(address + np.arange(0, size, UNIT), width)
    threads = np.full(len(addresses), who)
    return _Target(threads, addresses, shared_places(t, threads, addresses, UNIT))


def _start(t: Threads, who: int, place: int, target: _Target, data: Array) -> None:
    target.begin(t)
    barrier = barrier_at(t, place, who)
    barrier.copies.append((data.size, lambda: target.land(t, data)))


def _load(decoder: Decoder, op: Instruction) -> Step:
    target, source = (decoder.address(op, operand) for operand in op.operands[:2])
    size = decoder.read(op, op.operands[2], U32)
    barrier = decoder.address(op, op.operands[3])

    def step(t: Threads, lanes: Lanes) -> None:
        places = places_of(t, lanes, barrier)
        given = (lanes.pick(read(t)) for read in (target, source, size))
        for who, place, to, start, count in zip(lanes.index, places, *given, strict=True):
            goal = _target(t, int(who), int(to), int(count))
            at = int(start) + np.arange(0, int(count), UNIT)
            words = gather(t, "global", goal.who, at, 4, 4)
            _start(t, int(who), int(place), goal, words.view(np.uint8).reshape(-1, UNIT))

    return step


def _store(decoder: Decoder, op: Instruction) -> Step:
    target, source = (decoder.address(op, operand) for operand in op.operands[:2])
    size = decoder.read(op, op.operands[2], U32)

    def step(t: Threads, lanes: Lanes) -> None:
        given = (lanes.pick(read(t)) for read in (target, source, size))
        for who, to, start, count in zip(lanes.index, *given, strict=True):
            data, threads = _take(t, int(who), int(start), int(count), 1)
            at = int(to) + np.arange(0, int(count), UNIT)
            scatter(t, "global", threads, at, data.view(np.uint32))

    return step


def _take(t: Threads, who: int, start: int, size: int, width: int) -> tuple[Array, Array]:
    """Return bytes of shared memory as an asynchronous access sees them."""
    goal = _target(t, who, start, size, width)
    t.raise_for(t.shared.read(goal.who, goal.places, UNIT), goal.who, goal.addresses)
    fenced = np.full(len(goal.who), t.fenced[who])
    missed = t.shared.unfenced(goal.places, UNIT, t.fenced, fenced)
    t.raise_for(missed, goal.who, goal.addresses)
    return t.shared.rows(1, UNIT)[goal.places // UNIT].copy(), goal.who


class _Boxed:
    """The operand `[map, {x, y, …}]`: reads the map and the start of the box of a thread."""

    def __init__(self, decoder: Decoder, op: Instruction, operand: Any) -> None:
        if not isinstance(operand, Box):
            raise ValueError
        self._address = decoder.address(op, operand.address)
        self._start: list[Read] = [decoder.read(op, item, S32) for item in operand.start]

    def read(self, t: Threads, lanes: Lanes) -> list[tuple[int, TensorMap, tuple[int, ...]]]:
        addresses = lanes.pick(self._address(t))
        starts = np.stack([lanes.pick(read(t)) for read in self._start], axis=1)
        found: list[tuple[int, TensorMap, tuple[int, ...]]] = []
        for who, address, start in zip(lanes.index, addresses, starts, strict=True):
            octets = bytes(t.memory.view(int(address), SIZE))
            tensor = TensorMap.decode(octets)
            if tensor is None or len(tensor.extents) != len(start):
                raise t.fault("bounds", "no tensor map of this rank is here", int(who))
            found.append((int(who), tensor, tuple(int(x) for x in start)))
        return found


def _load_box(decoder: Decoder, op: Instruction) -> Step:
    target = decoder.address(op, op.operands[0])
    boxed = _Boxed(decoder, op, op.operands[1])
    barrier = decoder.address(op, op.operands[2])

    def step(t: Threads, lanes: Lanes) -> None:
        places = places_of(t, lanes, barrier)
        goals = lanes.pick(target(t))
        for (who, tensor, start), place, to in zip(
            boxed.read(t, lanes), places, goals, strict=True
        ):
            goal = _target(t, who, int(to), tensor.bytes_of_box, tensor.width)
            addresses, inside = tensor.elements(start)
            data = np.zeros((len(addresses), tensor.size), np.uint8)
            chosen = np.flatnonzero(inside)
            if len(chosen):
                threads = np.full(len(chosen), who)
                words = gather(t, "global", threads, addresses[chosen], tensor.size, 1)
                data[chosen] = words.view(np.uint8)
            _start(t, who, int(place), goal, data.reshape(-1, UNIT))

    return step


def _store_box(decoder: Decoder, op: Instruction) -> Step:
    boxed = _Boxed(decoder, op, op.operands[0])
    source = decoder.address(op, op.operands[1])

    def step(t: Threads, lanes: Lanes) -> None:
        for (who, tensor, start), at in zip(
            boxed.read(t, lanes), lanes.pick(source(t)), strict=True
        ):
            data, _ = _take(t, who, int(at), tensor.bytes_of_box, tensor.width)
            addresses, inside = tensor.elements(start)
            values = data.reshape(-1, tensor.size).view(f"u{tensor.size}")
            chosen = np.flatnonzero(inside)
            threads = np.full(len(chosen), who)
            scatter(t, "global", threads, addresses[chosen], values[chosen])

    return step
