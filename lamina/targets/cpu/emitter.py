"""The state of one kernel's lowering: what each value of the program is in LLVM."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from xdsl.ir import Block, Operation, SSAValue

from lamina.dialects import tile
from lamina.dialects.tile import shape_of
from lamina.errors import LoweringError
from lamina.targets.cpu import ranges
from lamina.targets.cpu.builder import Builder
from lamina.targets.cpu.elements import I8, Element, element
from lamina.targets.cpu.integers import constant, displace
from lamina.targets.cpu.memrefs import Memref, packed_strides
from lamina.targets.cpu.ranges import Range
from lamina.targets.cpu.shuffles import rechunk
from lamina.targets.cpu.values import Part, Tile, chunk
from lamina.targets.plans.layouts import layout

if TYPE_CHECKING:
    from lamina.targets.cpu.features import CpuFeatures

Rule = Callable[["Emitter", Any], None]
"""Lowers one operation: reads its operands' tiles, sets its results'."""

SCRATCH_SLOT, ERROR_SLOT = 24, 32
CACHE_LINE = 64


class Nodes(Protocol):
    """Numbers the source nodes that checks name."""

    def number(self, node: str) -> int:
        """Return the node's number, counted from 1."""
        ...


class Pending(Protocol):
    """A load that may still be put off."""

    memref: Memref
    home: int

    def settle(self) -> None:
        """Do the load now, in the scope where it was met."""
        ...


class Emitter:
    """Lowers the operations of `kernel`, in order, by `rules`."""

    def __init__(
        self,
        kernel: tile.KernelOp,
        features: CpuFeatures,
        nodes: Nodes,
        rules: Mapping[type[Operation], Rule],
    ) -> None:
        self.kernel = kernel
        self.features = features
        self.nodes = nodes
        self.builder = Builder()
        self.ranges: dict[SSAValue, Range] = {}
        self.pending: list[Pending] = []
        self.scratch_bytes = 0
        self._rules = rules
        self._values: dict[SSAValue, Tile] = {}
        self._memrefs: dict[SSAValue, Memref] = {}
        self._slots = self._argument_slots()
        self._aliases = self._alias_sets()
        self._written: dict[Operation, frozenset[SSAValue]] = {}
        self._loops: dict[int, Operation] = {}
        self._ditch: str | None = None

    def lower(self, block: Block) -> None:
        """Lower every operation of `block`; LoweringError names one that has no rule."""
        for op in block.ops:
            rule = self._rules.get(type(op))
            if rule is None:
                where = self.kernel.sym_name.data
                raise LoweringError(f"cpu has no rule for {op.name} (in kernel {where})")
            self._bound(op)
            rule(self, op)

    def tile(self, value: SSAValue) -> Tile:
        """Return what `value` is."""
        if value not in self._values:
            self._values[value] = self._index_argument(value)
        return self._values[value]

    def scalar(self, value: SSAValue) -> str:
        """Return the name or literal of a scalar."""
        return self.tile(value).part(0)

    def set(self, value: SSAValue, tile: Tile) -> None:
        """Say what `value` is."""
        self._values[value] = tile

    def make(
        self, element: Element, shape: Sequence[int], make: Part, width: int | None = None
    ) -> Tile:
        """Return a tile in parts of `width`, by default the usual one for its type."""
        if width is None:
            width = chunk(shape, element, self.features)
        return Tile(self.builder, element, shape, width, make)

    def usual(self, value: SSAValue) -> Tile:
        """Return what `value` is, in parts of the usual width for its type."""
        tile = self.tile(value)
        return rechunk(self.builder, tile, self.width(value))

    def width(self, value: SSAValue) -> int:
        """Return the usual width for a value's type."""
        return chunk(shape_of(value.type), element(value.type), self.features)

    def range(self, value: SSAValue) -> Range:
        """Return what is known of an integer value."""
        return self.ranges.get(value, ranges.ANY)

    def memref(self, value: SSAValue) -> Memref:
        """Return where a memref lies, its arguments loaded at the start of the kernel."""
        if value not in self._memrefs:
            with self.builder.at(0):
                self._memrefs[value] = self._argument(value)
        return self._memrefs[value]

    def reserve(self, size: int) -> int:
        """Return the offset of `size` more bytes in the worker's scratch memory."""
        offset = self.scratch_bytes
        self.scratch_bytes += -(-size // CACHE_LINE) * CACHE_LINE
        return offset

    def scratch(self, value: SSAValue | None, kind: Element, extents: Sequence[int]) -> str:
        """Return the pointer to new scratch memory, which is the memref `value` if there is one."""
        size = kind.size
        for extent in extents:
            size *= extent
        with self.builder.at(0):
            pointer = displace(self.builder, self.worker("ptr", SCRATCH_SLOT), self.reserve(size))
        if value is not None:
            texts = [str(n) for n in extents]
            strides = packed_strides(self.builder, texts)
            self._memrefs[value] = Memref(value, kind, pointer, tuple(texts), strides)
        return pointer

    def ditch(self, size: int) -> str:
        """Return the pointer to scratch memory for what is stored outside of any memref."""
        if self._ditch is None:
            self._ditch = self.scratch(None, I8, [size])
        return self._ditch

    def worker(self, type: str, offset: int) -> str:
        """Return a field of the worker's block, loaded at the start of the kernel."""
        with self.builder.at(0):
            pointer = displace(self.builder, "%worker", offset)
            return self.builder.pure(f"load {type}, ptr {pointer}, !invariant.load !0", pointer)

    def writes(self, memref: Memref) -> None:
        """Before a store to `memref`: do the loads that could see it."""
        seen = self._aliases.get(memref.root, frozenset((memref.root,)))
        for load in [p for p in self.pending if p.memref.root in seen]:
            load.settle()
            self.pending.remove(load)

    def leave(self) -> None:
        """After a region's end: its loads are out of sight."""
        self.pending = [p for p in self.pending if p.home <= self.builder.level]

    def enter_loop(self, op: Operation) -> None:
        """Remember which operation the innermost scope is the body of."""
        self._loops[self.builder.level] = op

    def unwritten_since(self, memref: Memref, home: int) -> bool:
        """Whether no region between scope `home` and here stores to `memref`."""
        if memref.constant:
            return True
        seen = self._aliases.get(memref.root, frozenset((memref.root,)))
        inner = range(home + 1, self.builder.level + 1)
        return not any(seen & self._stored_in(self._loops[depth]) for depth in inner)

    def _stored_in(self, op: Operation) -> frozenset[SSAValue]:
        if op not in self._written:
            stores = (inner for inner in op.walk() if isinstance(inner, tile.StoreOp))
            self._written[op] = frozenset(store.x for store in stores)
        return self._written[op]

    def _alias_sets(self) -> dict[SSAValue, frozenset[SSAValue]]:
        sets = {arg: frozenset((arg,)) for arg in self.kernel.memrefs}
        for a, b in tile.pairs(self.kernel.aliases):
            x, y = self.kernel.memrefs[a], self.kernel.memrefs[b]
            joined = sets[x] | sets[y]
            sets |= {arg: joined for arg in joined}
        return sets

    def _argument_slots(self) -> dict[SSAValue, int]:
        slots: dict[SSAValue, int] = {}
        free = 0
        for arg in self.kernel.body.block.args:
            slots[arg] = free
            free += layout(arg.type).slots if arg in self.kernel.memrefs else 1
        return slots

    def _argument(self, value: SSAValue) -> Memref:
        shape, slot = layout(value.type), self._slots[value]
        words = iter(range(slot + 1, slot + shape.slots))
        extents = [self._word(next(words)) if n is None else str(n) for n in shape.extents]
        strides = (
            packed_strides(self.builder, extents)
            if shape.strides is None
            else tuple(self._word(next(words)) if s is None else str(s) for s in shape.strides)
        )
        access = self.kernel.access.data[self.kernel.memrefs.index(value)].data
        alone = len(self._aliases[value]) == 1
        start = displace(self.builder, "%args", 8 * slot)
        pointer = self.builder.pure(f"load ptr, ptr {start}, !invariant.load !0", start)
        return Memref(
            value, element(value.type), pointer, tuple(extents), strides,
            access == "read" and alone, shape.offset,
        )  # fmt: skip

    def _index_argument(self, value: SSAValue) -> Tile:
        with self.builder.at(0):
            word = self._word(self._slots[value])
            return self.make(element(value.type), (), lambda _: word)

    def _word(self, slot: int) -> str:
        pointer = displace(self.builder, "%args", 8 * slot)
        return self.builder.pure(f"load i64, ptr {pointer}, !invariant.load !0", pointer)

    def _bound(self, op: Operation) -> None:
        rule = ranges.RANGES.get(type(op))
        if rule is None:
            return
        found = rule(*(self.range(operand) for operand in op.operands))
        self.bound(op.results[0], found)

    def bound(self, value: SSAValue, found: Range) -> None:
        """Record what is known of an integer value, within what its type can hold."""
        kind = element(value.type)
        if kind.bits < 64:
            half = 1 << (kind.bits - 1)
            fits = found.lo is not None and found.hi is not None
            if not fits or found.lo < -half or found.hi >= half:  # type: ignore[operator]
                found = Range(-half, half - 1)
        self.ranges[value] = found

    def literal(self, value: SSAValue) -> int | None:
        """Return the value of an integer scalar that is known now."""
        text = self.scalar(value)
        return constant(text) if text not in ("true", "false") else None
