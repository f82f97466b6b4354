"""Where the threads of a block must wait for each other: between what they store and read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from xdsl.dialects import scf
from xdsl.ir import SSAValue

from lamina.dialects import simt, tile
from lamina.passes.threads.regions import Access, Region
from lamina.passes.threads.rounds import moves_on, stays
from lamina.passes.threads.writer import Writer

Name = SSAValue | str
"""A memory: a memref of the kernel, or one for exchanges."""


EXCHANGE, LEFT, RIGHT = "exchange", "left", "right"
"""What shared memory is for: elements for other threads, and the operands of fragments."""

EXCHANGES = tuple(f"{use} i{bits}" for use in (EXCHANGE, LEFT, RIGHT) for bits in (8, 16, 32, 64))
"""The names of the memories through which threads hand each other elements."""


Touch = tuple[Name, Region | None]
"""A memory, and what was reached of it, None for any part."""


class State(NamedTuple):
    """What was read and stored since the last barrier, and what a later round may meet."""

    read: frozenset[Touch]
    stored: frozenset[Touch]
    met: frozenset[Name]


class Hazards:
    """What was read and stored since the last barrier, on any way that leads here.

    `region` says what an access reaches. Threads that each reach what they reached before, and no
    other thread did, need not wait.
    """

    def __init__(
        self,
        writer: Writer,
        kernel: tile.KernelOp,
        region: Callable[[Access], Region | None],
    ) -> None:
        self._writer = writer
        self._region = region
        self._read: set[Touch] = set()
        self._stored: set[Touch] = set()
        self._met: set[Name] = set()
        """What its one store may meet that it stored in an earlier round."""
        self._one: dict[Name, Name] = {}
        for a, b in tile.pairs(kernel.aliases):
            old, new = self._name(kernel.memrefs[a]), self._name(kernel.memrefs[b])
            self._one |= {name: new for name, one in self._one.items() if one == old}
            self._one[old] = new
        stores = [op for op in kernel.walk() if isinstance(op, tile.StoreOp)]
        names = [self._name(op.x) for op in stores]
        self._stored_somewhere = set(names)
        self._often = {name for name in names if names.count(name) > 1} | set(EXCHANGES)

    def load(self, *names: Name, region: Region | None = None) -> None:
        """Right before loads: wait if another thread may have stored what one of them reads."""
        read = {self._name(name) for name in names}
        if any(_meets(self._stored, name, region) for name in read):
            self._wait()
        self._read |= {(name, region) for name in read}

    def store(self, name: Name, region: Region | None = None) -> None:
        """Right before a store: wait if another thread may still read, or have stored."""
        name = self._name(name)
        again = name in self._often and _meets(self._stored, name, region)
        if name in self._met or again or _meets(self._read, name, region):
            self._wait()
        self._stored.add((name, region))

    def is_stored(self, name: Name) -> bool:
        """Tell whether the kernel stores to a memory, by whatever name, anywhere."""
        return self._name(name) in self._stored_somewhere

    def expect(self, loop: scf.ForOp) -> None:
        """Take what a loop's last round may have left, before its first operation.

        What a loop reads and does not store is waited for once, before it.
        """
        inside = [op for op in loop.body.block.walk() if isinstance(op, Access)]
        names = {self._name(op.x) for op in inside}
        stored = {self._name(op.x) for op in inside if isinstance(op, tile.StoreOp)}
        if any(_meets(self._stored, name, None) for name in names - stored):
            self._wait()
        for name in names:
            accesses = [op for op in inside if self._name(op.x) == name]
            stores = [op for op in accesses if isinstance(op, tile.StoreOp)]
            if stores and self._are_apart(accesses, loop):
                continue
            self._read |= {(name, None)} if len(stores) < len(accesses) else set()
            self._stored |= {(name, None)} if stores else set()
            self._met |= set() if all(moves_on(op, loop) for op in stores) else {name}
        exchanges = {(name, None) for name in EXCHANGES}
        self._read |= exchanges
        self._stored |= exchanges

    def _are_apart(self, accesses: Sequence[Access], loop: scf.ForOp) -> bool:
        """Tell whether no thread reaches in one round what another one does in another."""
        regions = [region for region in map(self._region, accesses) if region is not None]
        if len(regions) < len(accesses) or len({region.whole for region in regions}) > 1:
            return False
        alone = len(set(regions)) == 1 and regions[0].layout is not None
        return moves_on(accesses[0], loop) or (alone and stays(accesses[0], loop))

    def state(self) -> State:
        """Return what is pending."""
        return State(frozenset(self._read), frozenset(self._stored), frozenset(self._met))

    def restore(self, *states: State) -> None:
        """Take up what was pending on any of several ways."""
        self._read = {touch for state in states for touch in state.read}
        self._stored = {touch for state in states for touch in state.stored}
        self._met = {name for state in states for name in state.met}

    def _wait(self) -> None:
        self._writer.effect(simt.BarrierOp())
        for pending in (self._read, self._stored, self._met):
            pending.clear()

    def _name(self, name: Name) -> Name:
        return self._one.get(name, name)


def _meets(touches: set[Touch], name: Name, region: Region | None) -> bool:
    """Tell whether an access may reach what another thread has reached."""
    alone = region is not None and region.layout is not None
    return any(other == name and not (alone and its == region) for other, its in touches)
