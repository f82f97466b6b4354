"""Which scalars of a kernel decide which way it goes."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from lamina.dialects import tile


def steering(kernel: tile.KernelOp) -> set[SSAValue]:
    """Return the scalars that conditions and bounds are computed from."""
    waiting = [x for op in kernel.walk() for x in _decides(op)]
    found: set[SSAValue] = set()
    while waiting:
        value = waiting.pop()
        if value not in found:
            found.add(value)
            waiting += _sources(value)
    return found


def _decides(op: Operation) -> Sequence[SSAValue]:
    if isinstance(op, scf.ForOp):
        return (op.lb, op.ub, op.step)
    return (op.cond,) if isinstance(op, scf.IfOp) else ()


def _sources(value: SSAValue) -> Sequence[SSAValue]:
    """Return what a value is computed from, at once or in the round before."""
    op = value.owner
    if isinstance(op, Block):
        loop = op.parent_op()
        carried = isinstance(value, BlockArgument) and value.index > 0
        if not isinstance(loop, scf.ForOp) or not carried:
            return ()
        op = loop
    yielded = [
        x
        for region in (op.regions if isinstance(op, scf.ForOp | scf.IfOp) else ())
        for block in region.blocks
        for x in (block.last_op.operands if block.last_op else ())
    ]
    return [*op.operands, *yielded]
