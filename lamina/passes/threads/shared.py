"""What threads hand each other through memory that their block shares."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerType, MemRefType, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import Rewriter

from lamina.dialects import simt, tile
from lamina.dialects.layouts import Layout
from lamina.dialects.tile import element_of, shape_of
from lamina.passes.threads.hazards import EXCHANGE, Hazards
from lamina.passes.threads.places import Places, View
from lamina.passes.threads.writer import Number, Writer

_GAP = 16
"""Bytes between rows: one load of a thread."""


class Shared:
    """The shared memory of one kernel: each use has one memory, as large as it ever needs.

    With `narrow`, elements of 8 and 16 bits take no more than that.
    """

    def __init__(
        self, writer: Writer, places: Places, hazards: Hazards, threads: int, *, narrow: bool
    ) -> None:
        self._writer = writer
        self._places = places
        self._hazards = hazards
        self._threads = threads
        self._narrow = narrow
        self._memories: dict[str, tuple[SSAValue, int]] = {}

    @property
    def narrow(self) -> bool:
        """Whether elements of 8 and 16 bits take no more than that."""
        return self._narrow

    def apart(self, rows: View, view: View, kind: Attribute) -> tuple[View, View, int]:
        """Return two views of one tile with room between its rows, and the elements it takes so.

        Rows that are a multiple of 32 bytes apart would meet in the banks of shared memory. There
        is no room where elements take more bytes than they have: memory is scarce there.
        """
        if not self._narrow:
            return rows, view, prod(rows.shape)
        return _padded(rows, view, int(cast("Any", self.stored(kind)).bitwidth) // 8)

    def exchange(
        self,
        sources: Sequence[tuple[SSAValue, Layout, View]],
        size: int,
        layout: Layout,
        view: View,
    ) -> SSAValue:
        """Return elements that threads give each other through `size` elements of shared memory.

        Registers of each source are stored at the places that its layout and view say, and those
        of `view` are read under `layout`.
        """
        kind = element_of(sources[0][0].type)
        memory, name = self.memory(kind, size)
        self._hazards.store(name)
        for held, given, where in sources:
            at = self._places.number(given, where)
            registers = self.given(held, kind)
            run = where.run(given, self._threads)
            self.store(registers, memory, at, [], self._places.owner(given), run)
        self._hazards.load(name)
        at = self._places.number(layout, view)
        run = view.run(layout, self._threads)
        return self.taken(self.load(memory, at, layout.count, run), kind)

    def load(self, memory: SSAValue, at: Number, count: int, run: int) -> SSAValue:
        """Return what a memory has at places, of which `run` at a time are neighbours."""
        places = self._writer.registers(at, count)
        return self._writer.add(simt.LoadOp(memory, places, run=_fitting(run, memory)))

    def store(
        self,
        registers: SSAValue,
        memory: SSAValue,
        at: Number,
        masks: Sequence[SSAValue],
        owner: SSAValue | None,
        run: int = 1,
    ) -> None:
        """Store registers at places, where all masks hold, by the threads that own them."""
        count = shape_of(registers.type)[0]
        mask = self._writer.both([*masks, *([] if owner is None else [owner])])
        self._writer.effect(
            simt.StoreOp(
                registers,
                memory,
                self._writer.registers(at, count),
                None if mask is None else self._writer.registers(mask, count),
                _fitting(run, memory),
            )
        )

    def copy(
        self,
        source: SSAValue,
        at: Number,
        memory: SSAValue,
        to: Number,
        mask: SSAValue,
        count: int,
        run: int,
    ) -> None:
        """Begin to copy elements of a memory of the kernel, as many as a thread has registers."""
        places = [self._writer.registers(each, count) for each in (at, to)]
        held = self._writer.registers(mask, count)
        self._writer.effect(simt.CopyAsyncOp(source, places[0], memory, places[1], run, held))

    def memory(self, kind: Attribute, size: int, use: str = EXCHANGE) -> tuple[SSAValue, str]:
        """Return shared memory for `size` elements, and its name; a later use has it again."""
        stored = self.stored(kind)
        name = f"{use} {stored}"
        memory, room = self._memories.get(name, (None, 0))
        if memory is None:
            memory = self._writer.hoist(simt.MemoryOp(stored, size))
        elif size > room:
            grown = MemRefType(cast("Any", stored), [size], memory_space=simt.WORKGROUP)
            memory = Rewriter.replace_value_with_new_type(memory, grown)
        self._memories[name] = (memory, max(size, room))
        return memory, name

    def stored(self, kind: Attribute) -> Attribute:
        """Return the type in which an element is handed to another thread."""
        if isinstance(kind, IndexType):
            return i32
        bits = int(cast("Any", kind).bitwidth)
        if self._narrow and bits in (8, 16):
            return IntegerType(bits)
        return i64 if bits == 64 else i32

    def given(self, registers: SSAValue, kind: Attribute) -> SSAValue:
        """Return registers as shared memory has them."""
        stored, shape = self.stored(kind), shape_of(registers.type)
        if stored == kind:
            return registers
        if isinstance(kind, IntegerType | IndexType):
            return self._writer.add(tile.CastOp(registers, stored))
        bits = IntegerType(cast("Any", kind).bitwidth)
        value = self._writer.add(arith.BitcastOp(registers, tile.vector(bits, shape)))
        return value if bits == stored else self._writer.add(tile.CastOp(value, stored))

    def taken(self, registers: SSAValue, kind: Attribute) -> SSAValue:
        """Return what shared memory had as elements of a type."""
        shape = shape_of(registers.type)
        if self.stored(kind) == kind:
            return registers
        if isinstance(kind, IntegerType | IndexType):
            return self._writer.cast(registers, cast("Attribute", kind))
        bits = IntegerType(int(cast("Any", kind).bitwidth))
        value = self._writer.cast(registers, bits)
        return self._writer.add(arith.BitcastOp(value, tile.vector(kind, shape)))


def _fitting(run: int, memory: SSAValue) -> int:
    """Return how many of `run` neighbours one access takes."""
    bits = int(getattr(element_of(memory.type), "bitwidth", 64))
    return gcd(run, 8 * simt.ACCESS_BYTES // bits)


def _padded(rows: View, view: View, bytes_each: int) -> tuple[View, View, int]:
    row, size = rows.shape[-1], prod(rows.shape)
    gap = _GAP // bytes_each
    inside = all(
        stride % row == 0 or stride * (n - 1) < row
        for n, stride in zip(view.shape, view.strides, strict=True)
    )
    if len(rows.shape) < 2 or row * bytes_each % (2 * _GAP) or not inside:
        return rows, view, size

    def wide(place: int) -> int:
        return place // row * (row + gap) + place % row

    one, other = (
        View(each.shape, tuple(wide(s) for s in each.strides), wide(each.start))
        for each in (rows, view)
    )
    return one, other, size // row * (row + gap)
