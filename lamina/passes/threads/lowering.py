"""The state of one kernel's lowering: which registers hold what, and how it gets elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerType,
    MemRefType,
    VectorType,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from lamina.dialects import simt, tile
from lamina.dialects.layouts import LAYOUT, Layout, layouts_of, spread
from lamina.dialects.tile import element_of, shape_of
from lamina.errors import LoweringError
from lamina.passes.choose_layouts import broadcast_source, is_elementwise, transpose_source
from lamina.passes.threads.hazards import EXCHANGE, Hazards
from lamina.passes.threads.places import Places, Table, View
from lamina.passes.threads.writer import Number, Writer

Rule = Callable[["Lowering", Any], None]
"""Lowers one operation: reads what its operands are, says what its results are."""

EVERYWHERE = Layout((), ())
"""One element, which every thread has."""

_GAP = 16
"""Bytes between rows in shared memory: one load of a thread."""

_FREE = (tile.SplatOp, tile.IotaOp)
_MOVES = (tile.BroadcastOp, tile.ReshapeOp, tile.TransposeOp)


class Lowering:
    """Makes the program of one of `threads` threads of a kernel, operation by operation."""

    def __init__(
        self,
        kernel: tile.KernelOp,
        threads: int,
        subgroup: int,
        rules: Mapping[type[Operation], Rule],
        *,
        narrow: bool = False,
        stages: int = 1,
    ) -> None:
        self.kernel = kernel
        self.threads = threads
        self.subgroup = subgroup
        self.narrow = narrow
        self.stages = stages
        self._rules = rules
        old = kernel.body.block
        self.block = Block(arg_types=[arg.type for arg in old.args])
        self.writer = Writer(self.block)
        self.thread = self.writer.hoist(simt.ThreadIdOp())
        self.places = Places(self.writer, self.thread, threads)
        self.scalars: dict[SSAValue, SSAValue] = dict(zip(old.args, self.block.args, strict=True))
        self._homes: dict[SSAValue, tuple[Layout, SSAValue]] = {}
        self._memo: dict[tuple[SSAValue, Layout], SSAValue] = {}
        self._shared: dict[str, tuple[SSAValue, int]] = {}
        self.hazards = Hazards(self.writer, kernel)
        self.memrefs: dict[SSAValue, Any] = {}
        self.copied: set[Operation] = set()
        """Loads that a loop does ahead, by copies."""
        self.rooms: dict[Operation, Any] = {}
        """For products whose operands were copied: these, their memories, and in which room."""
        self._steering = _steering(kernel)

    def lower(self, block: Block) -> None:
        """Lower a block's operations in order; LoweringError names one that has no rule."""
        for op in block.ops:
            rule = self._rules.get(type(op))
            if rule is None:
                where = self.kernel.sym_name.data
                raise LoweringError(f"threads have no rule for {op.name} (in kernel {where})")
            rule(self, op)

    @contextmanager
    def region(self, block: Block) -> Generator[None]:
        """Write into `block`; what was computed in it is out of sight afterwards."""
        memo = dict(self._memo)
        with self.writer.inside(block):
            yield
        self._memo = memo

    def scalar(self, value: SSAValue) -> SSAValue:
        """Return a scalar or memref."""
        return self.scalars[value]

    def uniform(self, value: SSAValue, scalar: SSAValue) -> SSAValue:
        """Return a scalar that all threads found, marked so if it decides which way they go."""
        return self.writer.add(simt.UniformOp(scalar)) if value in self._steering else scalar

    def layout(self, value: SSAValue) -> Layout:
        """Return where a value of the kernel lies: at home, or as its operation says."""
        if value in self._homes:
            return self._homes[value][0]
        op = value.owner
        if isinstance(op, Operation) and LAYOUT in op.attributes:
            vectors = [y for y in op.results if isinstance(y.type, VectorType)]
            return layouts_of(op.attributes[LAYOUT])[vectors.index(cast("Any", value))]
        return spread(shape_of(value.type), self.threads)

    def set(self, value: SSAValue, layout: Layout, registers: SSAValue) -> None:
        """Say that a value is at home in these registers, a vector even if it is one."""
        self._homes[value] = (layout, registers)
        self._memo[value, layout] = registers

    def get(self, value: SSAValue, layout: Layout) -> SSAValue:
        """Return a value's registers under a layout, moved or computed again if need be."""
        key = (value, layout)
        if key not in self._memo:
            self._memo[key] = self._make(value, layout)
        return self._memo[key]

    def usual(self, value: SSAValue) -> SSAValue:
        """Return a value's registers under its own layout."""
        return self.get(value, self.layout(value))

    def is_free(self, value: SSAValue) -> bool:
        """Tell whether every thread can compute any element of a value without the others."""
        op = value.owner
        if not isinstance(value.type, VectorType):
            return True
        if value in self._homes or isinstance(op, Block):
            return False
        if isinstance(op, arith.ConstantOp):
            return _is_splat(op)
        if isinstance(op, _FREE):
            return True
        computed = isinstance(op, _MOVES) or is_elementwise(op)
        return computed and all(map(self.is_free, op.operands))

    def is_lazy(self, op: Operation) -> bool:
        """Tell whether an operation is done only where its result is wanted."""
        return isinstance(op, _MOVES) or self.is_free(op.results[0])

    def view(self, value: SSAValue, layout: Layout, view: View, source: Layout | None) -> SSAValue:
        """Return a value's elements by the coordinates of another tile, which lies as `layout`.

        `source` is where the value may lie so that no thread needs what it does not have.
        """
        wanted = view.table(layout, self.threads)
        for given in (source, self._homes[value][0] if value in self._homes else None):
            at = None if given is None else registers_of(given.table(self.threads), wanted)
            if given is not None and at is not None:
                return self.writer.pick(self.get(value, given), at)
        here, rows, size = self.layout(value), View.rows(shape_of(value.type)), 0
        if self.narrow:
            rows, view, size = padded(rows, view, self.stored(element_of(value.type)))
        size = max(size, prod(rows.shape))
        return self.exchange([(self.get(value, here), here, rows)], size, layout, view)

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
        memory, name = self.shared(kind, size)
        self.hazards.store(name)
        for held, given, where in sources:
            at = self.places.number(given, where)
            registers = self.to_shared(held, kind)
            run = where.run(given, self.threads)
            self.store(registers, memory, at, [], self.places.owner(given), run)
        self.hazards.load(name)
        at = self.writer.registers(self.places.number(layout, view), layout.count)
        run = view.run(layout, self.threads)
        return self.from_shared(self.writer.add(simt.LoadOp(memory, at, run=run)), kind)

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
        mask = self.writer.both([*masks, *([] if owner is None else [owner])])
        self.writer.effect(
            simt.StoreOp(
                registers,
                memory,
                self.writer.registers(at, count),
                None if mask is None else self.writer.registers(mask, count),
                run,
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
        places = [self.writer.registers(each, count) for each in (at, to)]
        held = self.writer.registers(mask, count)
        self.writer.effect(simt.CopyAsyncOp(source, places[0], memory, places[1], run, held))

    def shared(self, kind: Attribute, size: int, use: str = EXCHANGE) -> tuple[SSAValue, str]:
        """Return shared memory for `size` elements, and its name; a later use has it again."""
        stored = self.stored(kind)
        name = f"{use} {stored}"
        memory, room = self._shared.get(name, (None, 0))
        if memory is None:
            memory = self.writer.hoist(simt.MemoryOp(stored, size))
        elif size > room:
            grown = MemRefType(cast("Any", stored), [size], memory_space=simt.WORKGROUP)
            memory = Rewriter.replace_value_with_new_type(memory, grown)
        self._shared[name] = (memory, max(size, room))
        return memory, name

    def stored(self, kind: Attribute) -> Attribute:
        """Return the type in which an element is handed to another thread."""
        if isinstance(kind, IndexType):
            return i32
        bits = int(cast("Any", kind).bitwidth)
        if self.narrow and bits in (8, 16):
            return IntegerType(bits)
        return i64 if bits == 64 else i32

    def to_shared(self, registers: SSAValue, kind: Attribute) -> SSAValue:
        """Return registers as shared memory has them."""
        stored, shape = self.stored(kind), shape_of(registers.type)
        if stored == kind:
            return registers
        if isinstance(kind, IntegerType | IndexType):
            return self.writer.add(tile.CastOp(registers, stored))
        bits = IntegerType(cast("Any", kind).bitwidth)
        value = self.writer.add(arith.BitcastOp(registers, tile.vector(bits, shape)))
        return value if bits == stored else self.writer.add(tile.CastOp(value, stored))

    def from_shared(self, registers: SSAValue, kind: Attribute) -> SSAValue:
        """Return what shared memory had as elements of a type."""
        shape = shape_of(registers.type)
        if self.stored(kind) == kind:
            return registers
        if isinstance(kind, IntegerType | IndexType):
            return self.writer.cast(registers, cast("Attribute", kind))
        bits = IntegerType(int(cast("Any", kind).bitwidth))
        value = self.writer.cast(registers, bits)
        return self.writer.add(arith.BitcastOp(value, tile.vector(kind, shape)))

    def _make(self, value: SSAValue, layout: Layout) -> SSAValue:
        op = value.owner
        if isinstance(op, Block) or value in self._homes:
            return self._moved(value, layout)
        make = _LAZY.get(type(op), Lowering.elementwise)
        return make(self, op, layout)

    def elementwise(self, op: Operation, layout: Layout) -> SSAValue:
        """Return the registers of an elementwise operation under a layout."""
        operands = [
            self.get(x, layout) if shape_of(x.type) else self.scalar(x) for x in op.operands
        ]
        kind = element_of(op.results[0].type)
        type = tile.vector(kind, (layout.count,))
        return self.writer.add(again(op, operands, [type]))

    def _moved(self, value: SSAValue, layout: Layout) -> SSAValue:
        here, registers = self._homes[value]
        if here == layout:
            return registers
        return self.view(value, layout, View.rows(shape_of(value.type)), None)

    def _constant(self, op: arith.ConstantOp, layout: Layout) -> SSAValue:
        kind = element_of(op.result.type)
        numbers = list(cast("Any", op.value).get_values())
        if _is_splat(op):
            return self.writer.dense(kind, [numbers[0]] * layout.count)
        here = Layout((), ((len(numbers), 1),))
        self.set(op.result, here, self.writer.dense(kind, numbers))
        return self._moved(op.result, layout)

    def _splat(self, op: tile.SplatOp, layout: Layout) -> SSAValue:
        return self.writer.registers(self.scalar(op.x), layout.count)

    def _iota(self, op: tile.IotaOp, layout: Layout) -> SSAValue:
        number = self.places.number(layout, View.rows(shape_of(op.y.type)))
        return self.writer.cast(self.writer.registers(number, layout.count), element_of(op.y.type))

    def _reshaped(self, op: tile.ReshapeOp, layout: Layout) -> SSAValue:
        if not shape_of(op.x.type):
            return self.writer.registers(self.scalar(op.x), layout.count)
        return self.get(op.x, layout)

    def _broadcast(self, op: tile.BroadcastOp, layout: Layout) -> SSAValue:
        shape, x = shape_of(op.y.type), shape_of(op.x.type)
        strides = [0] * len(shape)
        for d, n, stride in zip(tile.values(op.dims), x, View.rows(x).strides, strict=True):
            strides[d] = stride if n > 1 else 0
        return self.view(op.x, layout, View(shape, tuple(strides)), broadcast_source(op, layout))

    def _transposed(self, op: tile.TransposeOp, layout: Layout) -> SSAValue:
        strides = View.rows(shape_of(op.x.type)).strides
        view = View(shape_of(op.y.type), tuple(strides[p] for p in tile.values(op.perm)))
        return self.view(op.x, layout, view, transpose_source(op, layout))


_LAZY: dict[type[Operation], Callable[[Lowering, Any, Layout], SSAValue]] = {
    arith.ConstantOp: Lowering._constant,  # pyright: ignore[reportPrivateUsage]
    tile.SplatOp: Lowering._splat,  # pyright: ignore[reportPrivateUsage]
    tile.IotaOp: Lowering._iota,  # pyright: ignore[reportPrivateUsage]
    tile.ReshapeOp: Lowering._reshaped,  # pyright: ignore[reportPrivateUsage]
    tile.BroadcastOp: Lowering._broadcast,  # pyright: ignore[reportPrivateUsage]
    tile.TransposeOp: Lowering._transposed,  # pyright: ignore[reportPrivateUsage]
}
"""How the registers of a value are made where they are wanted; the rest is elementwise."""


def again(op: Operation, operands: Sequence[SSAValue], types: Sequence[Attribute]) -> Operation:
    """Return an operation like `op` on other operands."""
    attributes = {key: value for key, value in op.attributes.items() if key != LAYOUT}
    return type(op).create(
        operands=operands,
        result_types=types,
        properties=dict(op.properties),
        attributes=attributes,
    )


def padded(rows: View, view: View, stored: Attribute) -> tuple[View, View, int]:
    """Return two views of one tile with room between its rows, and the elements it takes so.

    Rows that are a multiple of 32 bytes apart would meet in the banks of shared memory.
    """
    row, size = rows.shape[-1], prod(rows.shape)
    bytes_each = int(cast("Any", stored).bitwidth) // 8
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


def _steering(kernel: tile.KernelOp) -> set[SSAValue]:
    """Return the scalars that conditions and bounds are computed from."""
    open_ = [x for op in kernel.walk() for x in _decides(op)]
    found: set[SSAValue] = set()
    while open_:
        value = open_.pop()
        if value in found:
            continue
        found.add(value)
        op = value.owner
        if isinstance(op, Block):
            loop = op.parent_op()
            if isinstance(loop, scf.ForOp) and value.index > 0:  # pyright: ignore
                op = loop
        if isinstance(op, scf.ForOp | scf.IfOp):
            open_ += [x for r in op.regions for b in r.blocks for x in b.last_op.operands]  # pyright: ignore
        if isinstance(op, Operation):
            open_ += op.operands
    return found


def _decides(op: Operation) -> Sequence[SSAValue]:
    if isinstance(op, scf.ForOp):
        return (op.lb, op.ub, op.step)
    return (op.cond,) if isinstance(op, scf.IfOp) else ()


def registers_of(held: Table, wanted: Table) -> list[int] | None:
    """Return which register holds what is wanted in each, the same one in every thread."""
    first: dict[int, int] = {}
    for r, n in enumerate(held[0].tolist()):
        first.setdefault(n, r)
    at = [first.get(n) for n in wanted[0].tolist()]
    if any(r is None for r in at):
        return None
    found = cast("list[int]", at)
    return found if np.array_equal(held[:, found], wanted) else None


def _is_splat(op: arith.ConstantOp) -> bool:
    return isinstance(op.value, DenseIntOrFPElementsAttr) and (
        op.value.is_splat() or len(set(op.value.get_values())) == 1
    )
