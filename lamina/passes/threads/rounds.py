"""Whether an access goes on to other elements in each round of a loop around it, or stays."""

from __future__ import annotations

from typing import cast

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from lamina.dialects.tile import shape_of
from lamina.passes.choose_layouts import is_elementwise
from lamina.passes.threads.regions import Access


def stays(access: Access, loop: scf.ForOp) -> bool:
    """Tell whether each round of a loop reaches the same elements."""
    return not any(_is_inside(at.owner, loop) for at in access.at)


def moves_on(access: Access, loop: scf.ForOp) -> bool:
    """Tell whether in some dimension each round of a loop reaches beyond the last one."""
    # A step that is not known is at least 1.
    step = _constant(loop.step) or 1
    index = loop.body.block.args[0]
    for at, size, apart in zip(access.at, access.tile_shape, access.steps, strict=True):
        slope = None if shape_of(at.type) else _slope(at, index, loop)
        if slope is not None and slope * step >= size * apart > 0:
            return True
    return False


def _slope(value: SSAValue, index: SSAValue, loop: scf.ForOp) -> int | None:
    """Return by how much a value grows when a loop's index does by 1; None if that varies."""
    op = value.owner
    if value is index or not _is_inside(op, loop):
        return int(value is index)
    if isinstance(op, arith.ConstantOp):
        return 0
    if isinstance(op, Block):
        return None
    slopes = [_slope(x, index, loop) for x in op.operands]
    return None if None in slopes else _combined(op, cast("list[int]", slopes))


def _combined(op: Operation, slopes: list[int]) -> int | None:
    """Return the slope of what an operation makes of operands with these slopes."""
    if isinstance(op, arith.AddiOp):
        return slopes[0] + slopes[1]
    if isinstance(op, arith.SubiOp):
        return slopes[0] - slopes[1]
    if not any(slopes):
        return 0 if is_elementwise(op) else None
    if isinstance(op, arith.MuliOp) and not all(slopes):
        factor = _constant(op.rhs if slopes[0] else op.lhs)
        return None if factor is None else (slopes[0] or slopes[1]) * factor
    return None


def _is_inside(op: Operation | Block, loop: scf.ForOp) -> bool:
    at: Operation | None = op.parent_op() if isinstance(op, Block) else op
    while at is not None and at is not loop:
        at = at.parent_op()
    return at is loop


def _constant(value: SSAValue) -> int | None:
    op = value.owner
    known = isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr)
    return op.value.value.data if known else None  # type: ignore[union-attr]
