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
        stores = [op for op in kernel.walk() if isinstance(op, tile.StoreOp)]
        names = [self._name(op.x) for op in stores]
        self._stored_somewhere = set(names)
        # In a loop a store may meet itself in a later round.
        again = {self._name(op.x) for op in stores if op.parent_op() is not kernel}
        self._often = {name for name in names if names.count(name) > 1} | again | set(EXCHANGES)

    def load(self, *names: Name) -> None:
        """Right before loads: wait if another thread may have stored what one of them reads."""
        read = {self._name(name) for name in names}
        if not read.isdisjoint(self._stored):
            self._wait()
        self._read |= read

    def store(self, name: Name) -> None:
        """Right before a store: wait if another thread may still read, or have stored."""
        name = self._name(name)
        if name in self._read or (name in self._stored and name in self._often):
            self._wait()
        self._stored.add(name)

    def is_stored(self, name: Name) -> bool:
        """Tell whether the kernel stores to a memory, by whatever name, anywhere."""
        return self._name(name) in self._stored_somewhere

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
