"""Loops whose operands of matrix units are copied into shared memory while others are multiplied.

With `stages` rooms for each operand, the copies of `stages - 1` rounds are under way at a time. A
round waits for its own, lets all threads meet, begins the copies of a later round in the room
that the round before has left, and multiplies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Operation, SSAValue

from lamina.dialects import simt, tile
from lamina.dialects.tile import element_of, shape_of
from lamina.passes.choose_layouts import FRAGMENTS, WARPGROUPS, is_elementwise
from lamina.passes.threads.fragment_rules import Operand, operands_of
from lamina.passes.threads.lowering import Lowering, again
from lamina.passes.threads.memory_rules import address, run_in
from lamina.passes.threads.writer import Number

_BYTES = (4, 8, 16)
"""What a copy takes at once."""


@dataclass(frozen=True)
class Copies:
    """The copies of a loop: its product, the loads of the operands, and their rooms."""

    loop: scf.ForOp
    dot: tile.DotOp
    loads: tuple[tile.LoadOp, tile.LoadOp]
    operands: tuple[Operand, Operand]
    memories: tuple[SSAValue, SSAValue]


def copies_of(low: Lowering, loop: scf.ForOp) -> Copies | None:
    """Return what a loop can copy ahead; None if its operands come from elsewhere."""
    block = loop.body.block
    dots = [op for op in block.walk() if isinstance(op, tile.DotOp) and FRAGMENTS in op.attributes]
    if low.stages < 2 or not low.shared.narrow or len(dots) != 1:
        return None
    (dot,) = dots
    if dot.parent is not block:
        return None
    loads = (dot.a.owner, dot.b.owner)
    left, right = loads
    if not isinstance(left, tile.LoadOp) or not isinstance(right, tile.LoadOp):
        return None
    if not all(_moves(low, load, block) for load in (left, right)):
        return None
    operands = operands_of(low, dot)
    first, second = (
        low.shared.memory(element_of(each.value.type), each.size * low.stages, each.use)[0]
        for each in operands
    )
    return Copies(loop, dot, (left, right), operands, (first, second))


def _moves(low: Lowering, load: tile.LoadOp, block: Block) -> bool:
    """Tell whether a load can be a copy of an earlier round."""
    layout = low.layout(load.y)
    bits = getattr(element_of(load.y.type), "bitwidth", 64)
    scalars = [*(at for at in load.at if not shape_of(at.type)), *load.limit]
    vectors = [at for at in load.at if shape_of(at.type)]
    return (
        load.parent is block
        and not low.hazards.is_stored(load.x)
        and load.pad is None
        and len(list(load.y.uses)) == 1
        and run_in(low, load, layout) * bits // 8 in _BYTES
        and low.places.owner(layout) is None
        and all(_is_computed(x, block) for x in scalars)
        and all(_is_outside(x, block) for x in vectors)
    )


def _is_computed(value: SSAValue, block: Block) -> bool:
    op = value.owner
    if isinstance(op, Block):
        return op is not block or value is block.args[0]
    if op.parent is not block:
        return True
    known = isinstance(op, arith.ConstantOp) or is_elementwise(op)
    return known and all(_is_computed(x, block) for x in op.operands)


def _is_outside(value: SSAValue, block: Block) -> bool:
    op = value.owner
    if isinstance(op, Block):
        return op is not block
    return op.parent is not block and all(_is_outside(x, block) for x in op.operands)


def begin(low: Lowering, copies: Copies) -> None:
    """Begin the copies of the first rounds."""
    for memory in copies.operands:
        low.hazards.store(low.shared.memory(element_of(memory.value.type), 0, memory.use)[1])
    first, step = low.scalar(copies.loop.lb), low.scalar(copies.loop.step)
    for n in range(low.stages - 1):
        _issue(low, copies, low.writer.sum(first, low.writer.product(step, n)), n)


def go_on(low: Lowering, copies: Copies, room: SSAValue, index: SSAValue) -> None:
    """At the start of a round: wait for its operands, and begin copies of a later one."""
    writer, ahead = low.writer, low.stages - 1
    writer.effect(simt.WaitOp(ahead - 1))
    if WARPGROUPS in copies.dot.attributes:
        writer.effect(simt.FenceOp())
    writer.effect(simt.BarrierOp())
    step = low.scalar(copies.loop.step)
    later = writer.sum(index, writer.product(step, ahead))
    _issue(low, copies, later, writer.rest(writer.sum(room, ahead), low.stages))
    low.rooms[copies.dot] = (copies.operands, copies.memories, room)


def following(low: Lowering, room: SSAValue) -> SSAValue:
    """Return the room of the next round."""
    return low.writer.value(low.writer.rest(low.writer.sum(room, 1), low.stages))


def end(low: Lowering) -> None:
    """After the last round: wait for copies of rounds that there are none of."""
    low.writer.effect(simt.WaitOp(0))


def _issue(low: Lowering, copies: Copies, index: Number, room: Number) -> None:
    writer = low.writer
    live = writer.test("lt", index, low.scalar(copies.loop.ub))
    at_index = _replayed(low, copies.loop, writer.value(index))
    for load, operand, memory in zip(copies.loads, copies.operands, copies.memories, strict=True):
        layout = low.layout(load.y)
        source, at, masks = address(low, load, layout, at_index)
        mask = writer.both([live, *masks])
        assert mask is not None
        start = writer.product(room, operand.size)
        to = writer.sum(start, low.places.number(layout, operand.rows))
        low.shared.copy(source.value, at, memory, to, mask, layout.count, run_in(low, load, layout))
    writer.effect(simt.CommitOp())


def _replayed(low: Lowering, loop: scf.ForOp, index: SSAValue) -> Callable[[SSAValue], SSAValue]:
    """Return what gives the scalars of a loop's body for another round."""
    block = loop.body.block
    known: dict[SSAValue, SSAValue] = {block.args[0]: index}

    def scalar(value: SSAValue) -> SSAValue:
        op = value.owner
        if value not in known and isinstance(op, Operation) and op.parent is block:
            operands = [scalar(x) for x in op.operands]
            known[value] = low.writer.add(again(op, operands, [value.type]))
        return known[value] if value in known else low.scalar(value)

    return scalar
