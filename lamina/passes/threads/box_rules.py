"""Operands of products of several subgroups, brought into shared memory as boxes of their tensors.

One thread asks for them; a barrier that counts their bytes says when a round's are there. They
come in rows of 64 elements whose parts have changed places, so that neither those who write nor
those who read meet in the banks of shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from xdsl.dialects import scf
from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerType, MemRefType, NoneAttr, i64
from xdsl.ir import Block, SSAValue

from lamina.dialects import simt, tile
from lamina.dialects.tile import shape_of
from lamina.passes.threads.fragment_rules import Operand
from lamina.passes.threads.lowering import Lowering

_MOST_ROWS, _ROWS = 256, 8
"""Rows of a box at most, and of what its parts change places in."""

_ALIGNMENT = 1024
"""Bytes at a multiple of which a box begins, so that addresses tell where its parts are."""

Target = tuple[Operand, SSAValue, Any]
"""An operand, its memory, and where in that a round begins."""


def boxed(operands: tuple[Operand, Operand]) -> tuple[Operand, Operand] | None:
    """Return operands as they lie when they come in boxes; None where one cannot."""
    if not all(_comes_in_boxes(each.value) for each in operands):
        return None
    a, b = (replace(each, boxed=True, size=_size(each)) for each in operands)
    return a, b


def _size(operand: Operand) -> int:
    rows, columns = shape_of(operand.value.type)
    return rows * columns


def _comes_in_boxes(value: SSAValue) -> bool:
    load = value.owner
    if not isinstance(load, tile.LoadOp):
        return False
    kind = cast("MemRefType[Any]", load.x.type)
    rows, columns = shape_of(value.type)
    last = list(kind.get_shape())[-1]
    scalars = not any(shape_of(at.type) for at in load.at) and not load.limits
    rowwise = isinstance(kind.layout, NoneAttr) and last != DYNAMIC_INDEX and last % 8 == 0
    fits = rows % _ROWS == 0 and rows <= _MOST_ROWS and columns % simt.SWIZZLED_ROW == 0
    return scalars and rowwise and fits and last > 0 and load.pad is None and set(load.steps) == {1}


def memories(
    low: Lowering, operands: tuple[Operand, Operand], stages: int
) -> tuple[SSAValue, SSAValue]:
    """Return memory for some rounds of two operands."""
    first, second = (
        low.writer.hoist(simt.MemoryOp(IntegerType(16), each.size * stages, _ALIGNMENT))
        for each in operands
    )
    return first, second


def mbarriers(low: Lowering, stages: int) -> SSAValue:
    """Return memory for the barriers of some rounds."""
    return low.writer.hoist(simt.MemoryOp(i64, stages))


def issue(
    low: Lowering,
    live: SSAValue,
    boxes: Sequence[tuple[tile.LoadOp, Sequence[SSAValue], Target]],
    barrier: tuple[SSAValue, SSAValue],
) -> None:
    """Ask for the operands of a round, if there is such a round."""
    writer, block = low.writer, Block()
    copies = [_copies(low, load, at, target, barrier) for load, at, target in boxes]
    ops = [op for each in copies for op in each]
    with writer.inside(block):
        writer.effect(simt.MbarrierArriveOp(*barrier, sum(op.bytes for op in ops)))
        for op in ops:
            writer.effect(op)
        block.add_op(scf.YieldOp())
    writer.effect(scf.IfOp(live, [], [block]))


def _copies(
    low: Lowering,
    load: tile.LoadOp,
    at: Sequence[SSAValue],
    target: Target,
    barrier: tuple[SSAValue, SSAValue],
) -> list[simt.CopyTensorOp]:
    """Return the copies of an operand, 64 columns each."""
    writer, (operand, memory, start) = low.writer, target
    rows, columns = shape_of(operand.value.type)
    found: list[simt.CopyTensorOp] = []
    for first in range(0, columns, simt.SWIZZLED_ROW):
        places = [*at[:-1], writer.value(writer.sum(at[-1], first))]
        to = writer.value(writer.sum(start, first * rows))
        source = (low.scalar(load.x), places)
        found.append(simt.CopyTensorOp(source, (memory, to), barrier, (rows, simt.SWIZZLED_ROW)))
    return found
