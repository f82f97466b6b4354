"""How many columns of a product one program may take, so that it can finish them where they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.ir import Operation

from lamina.dialects import cache, nn, quant
from lamina.dialects.quant import BLOCK, ROWS
from lamina.dialects.tensors import extents
from lamina.passes.kernels.linear_kernel import Product, is_linear, shape_of
from lamina.passes.kernels.tiles import splits


def cuts(op: Operation) -> bool:
    """Whether an operation at the end of a product suits some tiles of columns only."""
    if isinstance(op, nn.ReshapeOp):
        return len(extents(op.y.type)) > 2
    return isinstance(op, nn.RopeOp | cache.WriteOp | quant.QuantizeOp)


def tile_counts(ops: Sequence[Operation]) -> list[int]:
    """Return how many tiles of 16 columns a program may take, so that the end can finish them.

    The operations are a group's, in order; ascending, and empty if no number suits all of them.
    """
    products = [op for op in ops if is_linear(op)]
    tiles = shape_of(cast("Product", products[0])).tiles
    end = [op for op in ops[ops.index(products[0]) :] if cuts(op)]
    return [
        n
        for n in range(1, tiles + 1)
        if tiles % n == 0 and all(_finishes(op, n * ROWS) for op in end)
    ]


def _finishes(op: Operation, columns: int) -> bool:
    """Whether an operation at the end of a product can finish a tile of that many columns."""
    match op:
        case nn.ReshapeOp():
            return splits(extents(op.y.type)[1:], columns)
        case nn.RopeOp() if op.interleaved is None:
            return extents(op.x.type)[-1] == columns
        case nn.RopeOp() | cache.WriteOp():
            return extents(op.x.type)[-1] % columns == 0
        case quant.QuantizeOp():
            return columns % BLOCK == 0
        case _:
            return True
