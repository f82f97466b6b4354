"""The state of one kernel's lowering: which registers hold what, and how it gets elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, VectorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from lamina.dialects import simt, tile
from lamina.dialects.layouts import LAYOUT, Layout, layouts_of, spread
from lamina.dialects.tile import element_of, shape_of
from lamina.errors import LoweringError
from lamina.passes.choose_layouts import broadcast_source, is_elementwise, transpose_source
from lamina.passes.threads.hazards import Hazards
from lamina.passes.threads.places import Places, Table, View
from lamina.passes.threads.regions import region_of
from lamina.passes.threads.shared import Shared
from lamina.passes.threads.steering import steering
from lamina.passes.threads.writer import Writer

Rule = Callable[["Lowering", Any], None]
"""Lowers one operation: reads what its operands are, says what its results are."""

EVERYWHERE = Layout((), ())
"""One element, which every thread has."""

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
        boxes: bool = False,
    ) -> None:
        self.kernel = kernel
        self.threads = threads
        self.subgroup = subgroup
        self.stages = stages
        self.boxes = boxes
        """Whether a loop may yet bring operands as boxes of their tensors."""
        self._rules = rules
        old = kernel.body.block
        self.block = Block(arg_types=[arg.type for arg in old.args])
        self.writer = Writer(self.block)
        self.thread = self.writer.hoist(simt.ThreadIdOp())
        self.places = Places(self.writer, self.thread, threads)
        self.scalars: dict[SSAValue, SSAValue] = dict(zip(old.args, self.block.args, strict=True))
        self._homes: dict[SSAValue, tuple[Layout, SSAValue]] = {}
        self._memo: dict[tuple[SSAValue, Layout], SSAValue] = {}
        self._free: dict[SSAValue, bool] = {}
        self.hazards = Hazards(self.writer, kernel, lambda op: region_of(self, op))
        self.shared = Shared(self.writer, self.places, self.hazards, threads, narrow=narrow)
        self.memrefs: dict[SSAValue, Any] = {}
        self.copied: set[Operation] = set()
        """Loads that a loop does ahead, by copies."""
        self.rooms: dict[Operation, Any] = {}
        """For products whose operands were copied: these, their memories, in which room, and how
        many products need not be waited for."""
        self._steering = steering(kernel)
        self._error_word: SSAValue | None = None

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

    def error_word(self) -> SSAValue:
        """Return the memory in which the step keeps which check failed."""
        if self._error_word is None:
            self._error_word = self.writer.hoist(simt.ErrorWordOp())
        return self._error_word

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
        if value not in self._free:
            computed = isinstance(op, _MOVES) or is_elementwise(op)
            self._free[value] = computed and all(map(self.is_free, op.operands))
        return self._free[value]

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
        here, rows = self.layout(value), View.rows(shape_of(value.type))
        rows, view, size = self.shared.apart(rows, view, element_of(value.type))
        return self.shared.exchange([(self.get(value, here), here, rows)], size, layout, view)

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
