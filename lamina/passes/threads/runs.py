"""Which elements that a thread loads or stores lie side by side in memory, and begin well."""

from __future__ import annotations

from math import gcd
from typing import Any, cast

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr, MemRefType, NoneAttr
from xdsl.ir import Block, SSAValue

from lamina.dialects import simt, tile
from lamina.dialects.tile import shape_of, values

_ANY = 1 << 30
"""Divides 0, and stands for all that do."""


def run_of(op: tile.LoadOp | tile.StoreOp) -> int:
    """Return how many neighbours along the last dimension one instruction may take; 1 if none.

    They are inside or outside together, and begin at a multiple of their size.
    """
    kind = cast("MemRefType[Any]", op.x.type)
    extents, shape = list(kind.get_shape()), op.tile_shape
    bits = int(getattr(kind.element_type, "bitwidth", 64))
    last = len(extents) - 1
    plain = isinstance(kind.layout, NoneAttr) and bits >= 8
    if last < 0 or not plain or op.steps[last] != 1 or shape_of(op.at[last].type):
        return 1
    if last not in values(op.in_bounds) or last in op.limits or extents[last] == DYNAMIC_INDEX:
        return 1
    rows = extents[last] if last else _ANY
    return gcd(shape[last], rows, divisor(op.at[last]), 8 * simt.ACCESS_BYTES // bits)


def divisor(value: SSAValue) -> int:
    """Return a power of two or another number that is known to divide an index."""
    op = value.owner
    if isinstance(op, Block):
        loop = op.parent_op()
        if isinstance(loop, scf.ForOp) and value is op.args[0]:
            return gcd(divisor(loop.lb), divisor(loop.step))
        return 1
    if isinstance(op, arith.ConstantOp):
        return abs(op.value.value.data) or _ANY if isinstance(op.value, IntegerAttr) else 1
    if isinstance(op, arith.MuliOp):
        return min(_ANY, divisor(op.lhs) * divisor(op.rhs))
    if isinstance(op, arith.AddiOp | arith.SubiOp | arith.MinSIOp | arith.MaxSIOp):
        return gcd(divisor(op.lhs), divisor(op.rhs))
    return 1
