"""Where the threads of a block must wait for each other: between what they store and read."""

from __future__ import annotations

from xdsl.ir import Block, SSAValue

from lamina.dialects import simt, tile
from lamina.passes.threads.writer import Writer

Name = SSAValue | str
"""A memory: a memref of the kernel, or one for exchanges."""


EXCHANGE, LEFT, RIGHT = "exchange", "left", "right"
"""What shared memory is for: elements for other threads, and the operands of fragments."""

EXCHANGES = tuple(f"{use} i{bits}" for use in (EXCHANGE, LEFT, RIGHT) for bits in (8, 16, 32, 64))
"""The names of the memories through which threads hand each other elements."""


class Hazards:
    """What was read and stored since the last barrier, on any way that leads here."""

    def __init__(self, writer: Writer, kernel: tile.KernelOp) -> None:
        self._writer = writer
        self._read: set[Name] = set()
        self._stored: set[Name] = set()
        self._one: dict[Name, Name] = {}
        for a, b in tile.pairs(kernel.aliases):
            old, new = self._name(kernel.memrefs[a]), self._name(kernel.memrefs[b])
            self._one |= {name: new for name, one in self._one.items() if one == old}
            self._one[old] = new
        stores = [self._name(op.x) for op in kernel.walk() if isinstance(op, tile.StoreOp)]
        self._often = {name for name in stores if stores.count(name) > 1} | set(EXCHANGES)

    def load(self, name: Name) -> None:
        """Before a load: wait if another thread may have stored."""
        name = self._name(name)
        if name in self._stored:
            self._wait()
        self._read.add(name)

    def store(self, name: Name) -> None:
        """Before a store: wait if another thread may still read, or have stored."""
        name = self._name(name)
        # One store never meets itself in an element.
        if name in self._read or (name in self._stored and name in self._often):
            self._wait()
        self._stored.add(name)

    def expect(self, block: Block) -> None:
        """Take what a loop's last round may have left, before its first operation."""
        for op in block.walk():
            if isinstance(op, tile.LoadOp):
                self._read.add(self._name(op.x))
            elif isinstance(op, tile.StoreOp):
                self._stored.add(self._name(op.x))
        self._read |= set(EXCHANGES)
        self._stored |= set(EXCHANGES)

    def state(self) -> tuple[set[Name], set[Name]]:
        """Return what is pending."""
        return set(self._read), set(self._stored)

    def restore(self, *states: tuple[set[Name], set[Name]]) -> None:
        """Take up what was pending on any of several ways."""
        self._read = {name for read, _ in states for name in read}
        self._stored = {name for _, stored in states for name in stored}

    def _wait(self) -> None:
        self._writer.effect(simt.BarrierOp())
        self._read.clear()
        self._stored.clear()

    def _name(self, name: Name) -> Name:
        return self._one.get(name, name)
