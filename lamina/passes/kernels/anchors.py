"""Which kernel builder an operation belongs to, and what may be fused into a kernel's end."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from lamina.dialects import cache, nn, quant
from lamina.dialects.quant import ROWS
from lamina.dialects.tensors import extents
from lamina.dialects.tile import values
from lamina.passes.kernels import maps
from lamina.passes.kernels.linear_kernel import is_linear
from lamina.passes.kernels.rows import STATISTICS
from lamina.passes.kernels.tiles import RULES

POINTWISE: tuple[type[Operation], ...] = (
    *maps.UNARY,
    *maps.BINARY,
    nn.CompareOp,
    nn.SelectOp,
    nn.CastOp,
    nn.ReluOp,
    nn.SigmoidOp,
    nn.SiluOp,
    nn.GeluOp,
)
"""Operations whose results at an element need their operands there only."""

END: tuple[type[Operation], ...] = (
    *POINTWISE,
    nn.ReshapeOp,
    nn.RopeOp,
    quant.QuantizeOp,
    cache.WriteOp,
)
"""What a tile of an anchor's result can go through before it is stored."""

SIDE: tuple[type[Operation], ...] = (nn.BroadcastOp, nn.ConstantOp, nn.IotaOp)
"""What may stand beside a tile's way, on other operands."""


def anchor_of(op: Operation) -> str:
    """Return the builder that makes a kernel of an operation that stands alone."""
    match op:
        case cache.AttentionOp():
            return "attention"
        case quant.LinearOp():
            return "linear"
        case nn.DotGeneralOp():
            return "linear" if is_linear(op) else "dot"
        case nn.ReduceOp() if values(op.dims) != (len(extents(op.x.type)) - 1,):
            return "reduce"
        case _:
            return "rows"


def group_anchor(ops: Sequence[Operation]) -> str:
    """Return the builder of a group's operations: that of the first which has tiles of its own."""
    return next((anchor_of(op) for op in ops if is_product(op)), "rows")


def is_product(op: Operation) -> bool:
    """Whether an operation is one whose kernel has tiles of its own."""
    return anchor_of(op) != "rows"


def has_statistics(ops: Sequence[Operation]) -> bool:
    """Whether any of the operations needs to know its row first."""
    return any(type(op) in STATISTICS for op in ops)


def is_map(ops: Sequence[Operation]) -> bool:
    """Whether operations map elements to elements, so that any kernel can compute them inline."""
    known = (*RULES, nn.ReluOp, nn.SigmoidOp, nn.SiluOp, nn.GeluOp, cache.WriteOp)
    return all(isinstance(op, known) and not is_product(op) for op in ops) and not has_statistics(
        ops
    )


def is_end(ops: Sequence[Operation], made: set[SSAValue]) -> bool:
    """Whether operations can follow an anchor tile by tile; `made` are its results.

    A slice may only cut off padding, and what is repeated may not be of the anchor's making.
    """
    derived = set(made)
    for op in ops:
        touched = any(operand in derived for operand in op.operands)
        if isinstance(op, nn.SliceOp) and touched:
            fits = all(start == 0 for start in op.starts) and op.step is None
        else:
            fits = isinstance(op, END if touched else (*END, *SIDE))
        if not fits or (isinstance(op, nn.ReshapeOp) and not keeps_rows(op)):
            return False
        if touched:
            derived |= set(op.results)
    return True


def keeps_rows(op: nn.ReshapeOp) -> bool:
    """Whether a reshape leaves the first dimension as it is, and tiles of 16 columns whole."""
    before, after = extents(op.x.type), extents(op.y.type)
    if not before or not after or before[0] != after[0]:
        return False
    return all(dim % ROWS == 0 for shape in (before, after) for dim in shape[-1:])
