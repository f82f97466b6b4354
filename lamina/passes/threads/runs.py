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
    """Return how many neighbours in memory one instruction may take; 1 if none.

    They are inside or outside together, and begin at a multiple of their number. They go on from
    the last dimension to the one before if the tile has all of it.
    """
    kind = cast("MemRefType[Any]", op.x.type)
    extents, shape = list(kind.get_shape()), op.tile_shape
    bits = int(getattr(kind.element_type, "bitwidth", 64))
    if not extents or not isinstance(kind.layout, NoneAttr) or bits < 8:
        return 1
    whole = 1
    for d in range(len(extents) - 1, -1, -1):
        if not _is_plain(op, d, extents[d]):
            break
        if shape[d] != extents[d] or divisor(op.at[d]) != _ANY:
            rows = extents[d] if d else _ANY
            whole *= gcd(shape[d], rows, divisor(op.at[d]))
            break
        whole *= shape[d]
    return gcd(whole, 8 * simt.ACCESS_BYTES // bits)


def _is_plain(op: tile.LoadOp | tile.StoreOp, dim: int, extent: int) -> bool:
    """Tell whether neighbours in a dimension follow one another, none of them outside."""
    inside = dim in values(op.in_bounds) and dim not in op.limits and extent != DYNAMIC_INDEX
    return inside and op.steps[dim] == 1 and not shape_of(op.at[dim].type)


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
