"""Where the threads of a block must wait for each other: between what they store and read."""

from __future__ import annotations

from typing import NamedTuple

from xdsl.dialects import scf
from xdsl.ir import SSAValue

from lamina.dialects import simt, tile
from lamina.passes.threads.rounds import moves_on
from lamina.passes.threads.writer import Writer

Name = SSAValue | str
"""A memory: a memref of the kernel, or one for exchanges."""


EXCHANGE, LEFT, RIGHT = "exchange", "left", "right"
"""What shared memory is for: elements for other threads, and the operands of fragments."""

EXCHANGES = tuple(f"{use} i{bits}" for use in (EXCHANGE, LEFT, RIGHT) for bits in (8, 16, 32, 64))
"""The names of the memories through which threads hand each other elements."""


class State(NamedTuple):
    """What was read and stored since the last barrier, and what a later round may meet."""

    read: frozenset[Name]
    stored: frozenset[Name]
    met: frozenset[Name]


class Hazards:
    """What was read and stored since the last barrier, on any way that leads here."""

    def __init__(self, writer: Writer, kernel: tile.KernelOp) -> None:
        self._writer = writer
        self._read: set[Name] = set()
        self._stored: set[Name] = set()
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

    def load(self, *names: Name) -> None:
        """Right before loads: wait if another thread may have stored what one of them reads."""
        read = {self._name(name) for name in names}
        if not read.isdisjoint(self._stored):
            self._wait()
        self._read |= read

    def store(self, name: Name) -> None:
        """Right before a store: wait if another thread may still read, or have stored."""
        name = self._name(name)
        again = name in self._met or (name in self._stored and name in self._often)
        if name in self._read or again:
            self._wait()
        self._stored.add(name)

    def is_stored(self, name: Name) -> bool:
        """Tell whether the kernel stores to a memory, by whatever name, anywhere."""
        return self._name(name) in self._stored_somewhere

    def expect(self, loop: scf.ForOp) -> None:
        """Take what a loop's last round may have left, before its first operation.

        What a loop reads and does not store is waited for once, before it.
        """
        inside = list(loop.body.block.walk())
        stores = [op for op in inside if isinstance(op, tile.StoreOp)]
        names = {self._name(op.x) for op in stores}
        read = {self._name(op.x) for op in inside if isinstance(op, tile.LoadOp)}
        if not (read - names).isdisjoint(self._stored):
            self._wait()
        self._met |= {self._name(op.x) for op in stores if not moves_on(op, loop)}
        self._read |= read
        self._read |= set(EXCHANGES)
        self._stored |= names | set(EXCHANGES)

    def state(self) -> State:
        """Return what is pending."""
        return State(frozenset(self._read), frozenset(self._stored), frozenset(self._met))

    def restore(self, *states: State) -> None:
        """Take up what was pending on any of several ways."""
        self._read = {name for state in states for name in state.read}
        self._stored = {name for state in states for name in state.stored}
        self._met = {name for state in states for name in state.met}

    def _wait(self) -> None:
        self._writer.effect(simt.BarrierOp())
        for pending in (self._read, self._stored, self._met):
            pending.clear()

    def _name(self, name: Name) -> Name:
        return self._one.get(name, name)
