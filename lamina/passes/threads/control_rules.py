"""Loops, branches, scalars, checks, and what is computed element by element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import arith, math, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from lamina.dialects import simt, tile
from lamina.dialects.tile import element_of, shape_of, vector
from lamina.passes.threads.lowering import EVERYWHERE, Lowering, again
from lamina.passes.threads.memory_rules import nothing
from lamina.passes.threads.pipeline_rules import (
    begin,
    copies_of,
    end,
    finished,
    following,
    go_on,
)


def compute(low: Lowering, op: Operation) -> None:
    """Lower what is done to each element: at once, or where it is wanted if that is free."""
    (y,) = op.results
    if not shape_of(y.type) and not any(shape_of(x.type) for x in op.operands):
        operands = [low.scalar(x) for x in op.operands]
        low.scalars[y] = low.writer.add(again(op, operands, [y.type]))
    elif not low.is_lazy(op):
        layout = low.layout(y)
        low.set(y, layout, low.elementwise(op, layout))


def constant(low: Lowering, op: arith.ConstantOp) -> None:
    """Lower a constant: a scalar goes ahead of the kernel, a tile is made where it is wanted."""
    if not shape_of(op.result.type):
        low.scalars[op.result] = low.writer.constant(op.value)


def reshape(low: Lowering, op: tile.ReshapeOp) -> None:
    """Lower a change of shape, which moves nothing; of one element it may make a scalar."""
    if not shape_of(op.y.type):
        x = op.x
        low.scalars[op.y] = (
            low.uniform(op.y, low.writer.first(low.get(x, EVERYWHERE)))
            if shape_of(x.type)
            else low.scalar(x)
        )


def check(low: Lowering, op: tile.CheckOp) -> None:
    """Lower a check, which every thread makes of what it holds: the first failure stays."""
    writer = low.writer
    ok = low.scalar(op.ok) if not shape_of(op.ok.type) else _all_of(low, low.usual(op.ok))
    failed = writer.add(arith.XOrIOp(ok, writer.constant(IntegerAttr(1, 1))))
    none = writer.constant(IntegerAttr(0, 32))
    node, word = writer.hoist(simt.NodeOp(op.node.data)), low.error_word()
    change = simt.AtomicOp("compare_exchange", node, word, writer.index(0), none, failed)
    writer.effect(change)


def _all_of(low: Lowering, registers: SSAValue) -> SSAValue:
    """Return whether all registers are true."""
    writer, count = low.writer, shape_of(registers.type)[0]
    while count > 1:
        half = count // 2
        lower, upper = (writer.pick(registers, range(n, n + half)) for n in (0, half))
        both = writer.add(arith.AndIOp(lower, upper))
        rest = [writer.pick(registers, [count - 1])] if count % 2 else []
        registers, count = writer.join([both, *rest]), half + count % 2
    return writer.first(registers)


def loop(low: Lowering, op: scf.ForOp) -> None:
    """Lower a loop; what it carries stays in the same registers."""
    old, copies = op.body.block, copies_of(low, op)
    block = Block(arg_types=[old.args[0].type, *(_type(low, y) for y in op.results)])
    carried = [_given(low, x, y) for x, y in zip(op.iter_args, op.results, strict=True)]
    if copies is not None:
        begin(low, copies)
        block.insert_arg(old.args[0].type, len(block.args))
        carried.append(low.writer.index(0))
        low.copied.update(copies.loads)
    low.scalars[old.args[0]] = block.args[0]
    for arg, y, new in zip(old.args[1:], op.results, block.args[1:], strict=False):
        _set(low, arg, y, new)
    low.hazards.expect(op)
    before = low.hazards.state()
    with low.region(block):
        if copies is not None:
            go_on(low, copies, block.args[-1], block.args[0])
        low.lower(old)
        rooms = [] if copies is None else [following(low, copies, block.args[-1])]
        block.add_op(scf.YieldOp(*_yielded(low, old, op), *rooms))
    low.hazards.restore(before, low.hazards.state())
    bounds = (low.scalar(op.lb), low.scalar(op.ub), low.scalar(op.step))
    new_loop = scf.ForOp(*bounds, carried, block)
    low.writer.effect(new_loop)
    results: Sequence[SSAValue] = new_loop.results
    if copies is not None:
        end(low, copies)
        results = finished(low, copies, results)
    for y, result in zip(op.results, results, strict=False):
        _set(low, y, y, result)


def branch(low: Lowering, op: scf.IfOp) -> None:
    """Lower a branch, which all threads of the block take alike."""
    before = low.hazards.state()
    blocks: list[Block] = []
    after = [before]
    for region in op.regions:
        for old in region.blocks:
            block = Block()
            low.hazards.restore(before)
            with low.region(block):
                low.lower(old)
                block.add_op(scf.YieldOp(*_yielded(low, old, op)))
            after.append(low.hazards.state())
            blocks.append(block)
    low.hazards.restore(*after)
    types = [_type(low, y) for y in op.results]
    new = scf.IfOp(low.scalar(op.cond), types, [blocks[0]], blocks[1:] or None)
    low.writer.effect(new)
    for y, result in zip(op.results, new.results, strict=True):
        _set(low, y, y, result)


def _yielded(low: Lowering, old: Block, op: scf.ForOp | scf.IfOp) -> list[SSAValue]:
    end = old.last_op
    assert end is not None
    return [_given(low, x, y) for x, y in zip(end.operands, op.results, strict=True)]


def _type(low: Lowering, value: SSAValue) -> Any:
    if not shape_of(value.type):
        return value.type
    return vector(element_of(value.type), (low.layout(value).count,))


def _given(low: Lowering, value: SSAValue, place: SSAValue) -> SSAValue:
    """Return what goes to `place`, in its layout."""
    return low.get(value, low.layout(place)) if shape_of(value.type) else low.scalar(value)


def _set(low: Lowering, value: SSAValue, like: SSAValue, new: SSAValue) -> None:
    if shape_of(value.type):
        low.set(value, low.layout(like), new)
    else:
        low.scalars[value] = new


ELEMENTWISE: Sequence[type[Operation]] = tuple(
    op
    for dialect in (arith.Arith, math.Math)
    for op in dialect.operations
    if op is not arith.ConstantOp
)

RULES = {
    **dict.fromkeys((*ELEMENTWISE, tile.CastOp, tile.CompareOp, tile.SelectOp), compute),
    **dict.fromkeys((tile.SplatOp, tile.IotaOp, tile.BroadcastOp, tile.TransposeOp), nothing),
    arith.ConstantOp: constant,
    tile.ProgramIdOp: compute,
    tile.ReshapeOp: reshape,
    tile.CheckOp: check,
    scf.ForOp: loop,
    scf.IfOp: branch,
    scf.YieldOp: nothing,
}
