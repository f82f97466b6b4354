"""Loops whose operands of matrix units are copied into shared memory while others are multiplied.

With `stages` rooms for each operand, the copies of some rounds are under way at a time. A round
waits for its own, lets all threads meet, begins the copies of a later round in a room that nobody
reads any more, and multiplies. Where several subgroups multiply together, a round's product is
still under way when the next one begins: its room is free only a round later.

Copies are those of all threads, or boxes that one thread asks for (`box_rules`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Operation, SSAValue

from lamina.dialects import simt, tile
from lamina.dialects.tile import element_of, shape_of
from lamina.passes.choose_layouts import DIRECT, FRAGMENTS, STAGED, WARPGROUPS, is_elementwise
from lamina.passes.threads import box_rules
from lamina.passes.threads.fragment_rules import Operand, operands_of, staged_operands
from lamina.passes.threads.lowering import Lowering, again
from lamina.passes.threads.memory_rules import address, run_in
from lamina.passes.threads.writer import Number

_BYTES = (4, 8, 16)
"""What a copy takes at once."""


@dataclass(frozen=True)
class Copies:
    """The copies of a loop: its product, the loads of the operands, and their rooms.

    `sums` is the number of the loop's value that one product adds to while the one before is under
    way; None where each is waited for. Boxes come with `mbarriers`.
    """

    loop: scf.ForOp
    dot: tile.DotOp
    loads: tuple[tile.LoadOp, tile.LoadOp]
    operands: tuple[Operand, Operand]
    memories: tuple[SSAValue, SSAValue]
    stages: int
    sums: int | None = None
    mbarriers: SSAValue | None = None

    @property
    def pending(self) -> int:
        """How many products are under way at the end of a round."""
        return 0 if self.sums is None else 1

    @property
    def ahead(self) -> int:
        """How many rounds ahead copies begin."""
        return self.stages - 1 - self.pending


def copies_of(low: Lowering, loop: scf.ForOp) -> Copies | None:
    """Return what a loop can copy ahead; None if its operands come from elsewhere."""
    block, dot = loop.body.block, _marked(loop)
    if low.stages < 2 or not low.shared.narrow or dot is None or DIRECT in dot.attributes:
        return None
    left, right = dot.a.owner, dot.b.owner
    if not isinstance(left, tile.LoadOp) or not isinstance(right, tile.LoadOp):
        return None
    if not all(_moves(low, load, block) for load in (left, right)):
        return None
    operands = operands_of(low, dot) if FRAGMENTS in dot.attributes else staged_operands(low, dot)
    if operands is None:
        return None
    sums = _sums(low, loop, dot)
    if low.boxes and WARPGROUPS in dot.attributes and loop.parent is low.kernel.body.block:
        boxed = box_rules.boxed(operands)
        if boxed is not None:
            low.boxes = False
            memories = box_rules.memories(low, boxed, low.stages)
            mbarriers = box_rules.mbarriers(low, low.stages)
            return Copies(loop, dot, (left, right), boxed, memories, low.stages, sums, mbarriers)
    first, second = (
        low.shared.memory(element_of(each.value.type), each.size * low.stages, each.use)[0]
        for each in operands
    )
    return Copies(loop, dot, (left, right), operands, (first, second), low.stages, sums)


def _marked(loop: scf.ForOp) -> tile.DotOp | None:
    """Return the one product in a loop whose operands come through shared memory, if it is one."""
    marks, block = {FRAGMENTS, STAGED}, loop.body.block
    dots = [op for op in block.walk() if isinstance(op, tile.DotOp)]
    found = [op for op in dots if not marks.isdisjoint(op.attributes)]
    return found[0] if len(found) == 1 and found[0].parent is block else None


def _sums(low: Lowering, loop: scf.ForOp, dot: tile.DotOp) -> int | None:
    """Return which value of a loop nothing but a product of several subgroups adds to."""
    block, end = loop.body.block, loop.body.block.last_op
    assert end is not None
    if WARPGROUPS not in dot.attributes or low.stages < 3 or dot.acc not in block.args[1:]:
        return None
    number = block.args.index(cast("Any", dot.acc)) - 1
    alone = len(list(dot.acc.uses)) == len(list(dot.y.uses)) == 1
    given = end.operands[number] is dot.y
    kept = low.layout(dot.y) == low.layout(loop.results[number])
    return number if alone and given and kept else None


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
    if copies.mbarriers is None:
        for each in copies.operands:
            low.hazards.store(low.shared.memory(element_of(each.value.type), 0, each.use)[1])
    else:
        low.writer.effect(simt.MbarrierInitOp(copies.mbarriers))
        low.writer.effect(simt.BarrierOp())
    first, step = low.scalar(copies.loop.lb), low.scalar(copies.loop.step)
    for n in range(copies.ahead):
        _issue(low, copies, low.writer.sum(first, low.writer.product(step, n)), n)


def go_on(low: Lowering, copies: Copies, count: SSAValue, index: SSAValue) -> None:
    """At the start of a round: wait for its operands, and begin copies of a later one.

    `count` is the number of the round, or of its room.
    """
    writer, ahead, stages = low.writer, copies.ahead, copies.stages
    room: Number = count
    if copies.mbarriers is not None:
        room = writer.rest(count, stages)
        parity = writer.rest(writer.quotient(count, stages), 2)
        places = [writer.value(each) for each in (room, parity)]
        writer.effect(simt.MbarrierWaitOp(copies.mbarriers, *places))
    else:
        writer.effect(simt.WaitOp(ahead - 1))
        if WARPGROUPS in copies.dot.attributes:
            writer.effect(simt.FenceOp())
    writer.effect(simt.BarrierOp())
    later = writer.sum(index, writer.product(low.scalar(copies.loop.step), ahead))
    _issue(low, copies, later, writer.rest(writer.sum(count, ahead), stages))
    low.rooms[copies.dot] = (copies.operands, copies.memories, room, copies.pending)


def following(low: Lowering, copies: Copies, count: SSAValue) -> SSAValue:
    """Return the number of the next round, or of its room."""
    after = low.writer.sum(count, 1)
    return low.writer.value(
        after if copies.mbarriers is not None else low.writer.rest(after, copies.stages)
    )


def end(low: Lowering, copies: Copies) -> None:
    """After the last round: wait for copies of rounds that there are none of."""
    if copies.mbarriers is None:
        low.writer.effect(simt.WaitOp(0))


def finished(low: Lowering, copies: Copies, results: Sequence[SSAValue]) -> list[SSAValue]:
    """Return what the loop gives, when no product is under way any more."""
    found = list(results)
    if copies.sums is not None:
        found[copies.sums] = low.writer.add(simt.WarpgroupWaitOp(found[copies.sums], 0))
    return found


def _issue(low: Lowering, copies: Copies, index: Number, room: Number) -> None:
    writer = low.writer
    live = writer.test("lt", index, low.scalar(copies.loop.ub))
    at_index = _replayed(low, copies.loop, writer.value(index))
    starts = [writer.product(room, operand.size) for operand in copies.operands]
    if copies.mbarriers is not None:
        at = [[at_index(x) for x in load.at] for load in copies.loads]
        barrier = (copies.mbarriers, writer.value(room))
        targets = [*zip(copies.operands, copies.memories, starts, strict=True)]
        box_rules.issue(low, live, [*zip(copies.loads, at, targets, strict=True)], barrier)
        return
    whole = zip(copies.loads, copies.operands, copies.memories, starts, strict=True)
    for load, operand, memory, start in whole:
        layout = low.layout(load.y)
        source, at, masks = address(low, load, layout, at_index)
        mask = writer.both([live, *masks])
        assert mask is not None
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
