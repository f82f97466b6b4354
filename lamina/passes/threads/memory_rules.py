"""Loads and stores: a subscript and a mask for each register."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd, prod
from typing import Any, NamedTuple, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, StridedLayoutAttr
from xdsl.ir import SSAValue

from lamina.dialects import simt, tile
from lamina.dialects.layouts import Layout
from lamina.dialects.tile import shape_of, values
from lamina.passes.choose_layouts import along
from lamina.passes.threads.lowering import EVERYWHERE, Lowering
from lamina.passes.threads.places import View
from lamina.passes.threads.regions import region_of
from lamina.passes.threads.runs import run_of
from lamina.passes.threads.writer import Number


class Memref(NamedTuple):
    """A memory of the kernel: its extents, and its strides in elements."""

    value: SSAValue
    extents: tuple[Number, ...]
    strides: tuple[Number, ...]
    offset: int


def memref(low: Lowering, value: SSAValue) -> Memref:
    """Return where the elements of a memref are; what is not known is read once."""
    if value not in low.memrefs:
        with low.writer.ahead():
            low.memrefs[value] = _memref(low, value)
    return low.memrefs[value]


def _memref(low: Lowering, value: SSAValue) -> Memref:
    kind, new, writer = cast("MemRefType[Any]", value.type), low.scalar(value), low.writer
    extents: list[Number] = [
        writer.add(simt.ExtentOp(new, d)) if n == DYNAMIC_INDEX else n
        for d, n in enumerate(kind.get_shape())
    ]
    if isinstance(kind.layout, StridedLayoutAttr):
        strides: list[Number] = [
            getattr(stride, "data", None) or writer.add(simt.StrideOp(new, d))
            for d, stride in enumerate(kind.layout.strides.data)
        ]
        return Memref(new, tuple(extents), tuple(strides), getattr(kind.layout.offset, "data", 0))
    rows: list[Number] = [1]
    for n in reversed(extents[1:]):
        rows.insert(0, writer.product(rows[0], n))
    return Memref(new, tuple(extents), tuple(rows[: len(extents)]), 0)


def address(
    low: Lowering,
    op: tile.LoadOp | tile.StoreOp,
    layout: Layout,
    scalar: Callable[[SSAValue], SSAValue] | None = None,
) -> tuple[Memref, Number, list[SSAValue]]:
    """Return the memory, the number of the element for each register, and where it is inside.

    `scalar` gives the scalars that say where, if not those of this place in the kernel.
    """
    scalar = scalar or low.scalar
    writer, shape, memory = low.writer, op.tile_shape, memref(low, op.x)
    zipped, safe, limits = values(op.zip), values(op.in_bounds), op.limits
    place, masks = cast("Number", memory.offset), list[SSAValue]()
    for d, at in enumerate(op.at):
        if shape_of(at.type):
            axis = zipped[0] if d in zipped else d
            view = View(shape, tuple(int(each == axis) for each in range(len(shape))))
            here: Number = low.view(at, layout, view, along(shape, layout, axis))
            place = writer.sum(place, writer.product(here, memory.strides[d]))
        else:
            start = scalar(at)
            step = writer.product(low.places.coordinate(layout, shape, d), op.steps[d])
            place = writer.sum(place, writer.product(start, memory.strides[d]))
            place = writer.sum(place, writer.product(step, memory.strides[d]))
            here = writer.sum(start, step) if d not in safe or d in limits else 0
        if d not in safe:
            masks += [writer.test("ge", here, 0), writer.test("lt", here, memory.extents[d])]
        if d in limits:
            masks.append(writer.test("lt", here, scalar(limits[d])))
    return memory, place, masks


def load(low: Lowering, op: tile.LoadOp) -> None:
    """Lower a load; all threads load a scalar, the same one. What is copied is there already."""
    if op in low.copied:
        return
    scalar = not shape_of(op.y.type)
    layout = EVERYWHERE if scalar else _in_runs(low, op, low.layout(op.y))
    memory, at, masks = address(low, op, layout)
    mask = low.writer.both(masks)
    low.hazards.load(op.x, region=region_of(low, op))
    registers = low.writer.add(
        simt.LoadOp(
            memory.value,
            low.writer.registers(at, layout.count),
            None if mask is None else low.writer.registers(mask, layout.count),
            op.pad,
            run_in(low, op, layout),
        )
    )
    if scalar:
        low.scalars[op.y] = low.uniform(op.y, low.writer.first(registers))
    else:
        low.set(op.y, layout, registers)


def store(low: Lowering, op: tile.StoreOp) -> None:
    """Lower a store; an element that several threads hold is stored by the first of them."""
    if not shape_of(op.v.type):
        low.set(op.v, EVERYWHERE, low.writer.registers(low.scalar(op.v), 1))
    layout = EVERYWHERE if not shape_of(op.v.type) else low.layout(op.v)
    if not _is_unique(op):
        _store_in_order(low, op)
        return
    layout = _in_runs(low, op, layout)
    memory, at, masks = address(low, op, layout)
    registers = low.get(op.v, layout)
    low.hazards.store(op.x, region_of(low, op))
    run = run_in(low, op, layout)
    low.shared.store(registers, memory.value, at, masks, low.places.owner(layout), run)


def run_in(low: Lowering, op: tile.LoadOp | tile.StoreOp, layout: Layout) -> int:
    """Return how many registers at a time one instruction may load or store."""
    if not layout.count:
        return 1
    most = simt.ACCESS_BYTES if low.shared.narrow else 8
    return gcd(run_of(op), View.rows(op.tile_shape).run(layout, low.threads, most))


def _in_runs(low: Lowering, op: tile.LoadOp | tile.StoreOp, layout: Layout) -> Layout:
    """Return a layout with the registers in order, if one instruction then takes more of them."""
    if run_of(op) == 1:
        return layout
    ordered = Layout.of(layout.threads, sorted(layout.registers, key=lambda digit: digit[1]))
    return ordered if run_in(low, op, ordered) > run_in(low, op, layout) else layout


def _is_unique(op: tile.StoreOp) -> bool:
    """Tell whether no two elements of the tile can meet."""
    steps = zip(op.tile_shape, op.steps, op.at, strict=True)
    apart = all(not shape_of(at.type) and (n == 1 or step) for n, step, at in steps)
    return op.unique is not None or apart or prod(op.tile_shape) == 1


def _store_in_order(low: Lowering, op: tile.StoreOp) -> None:
    """Let the first thread store the elements one by one, so that the last of equals stays."""
    writer, count = low.writer, prod(op.tile_shape)
    layout = Layout((), ((count, 1),))
    memory, at, masks = address(low, op, layout)
    registers, mask = low.get(op.v, layout), writer.both(masks)
    places = writer.registers(at, count)
    low.hazards.store(op.x)
    owner = low.places.owner(layout)
    for r in range(count):
        one = [] if mask is None else [writer.pick(writer.registers(mask, count), [r])]
        value, place = writer.pick(registers, [r]), writer.pick(places, [r])
        low.shared.store(value, memory.value, place, one, owner)


def scratch(low: Lowering, op: tile.ScratchOp) -> None:
    """Lower memory of the program: the threads share it."""
    kind = cast("MemRefType[Any]", op.y.type)
    memory = simt.MemoryOp(kind.element_type, prod(kind.get_shape()))
    low.scalars[op.y] = low.writer.hoist(memory)


def nothing(low: Lowering, op: object) -> None:
    """Lower what threads need not do."""


RULES = {
    tile.LoadOp: load,
    tile.StoreOp: store,
    tile.ScratchOp: scratch,
    tile.PrefetchOp: nothing,
    tile.ReturnOp: nothing,
}
