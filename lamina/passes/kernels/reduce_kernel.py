"""Build reductions along dimensions other than the last: one loop, lanes along the last."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import SSAValue

from lamina.dialects import nn, tile
from lamina.dialects.dims import product
from lamina.dialects.tensors import extents
from lamina.errors import LoweringError
from lamina.passes.kernels.kernel import Kernel
from lamina.passes.kernels.row_kernel import WIDEST
from lamina.passes.kernels.rows import COMBINE, chunk_of, neutral
from lamina.passes.kernels.subscripts import Span


def build_reduce(group: nn.GroupOp, name: str) -> tile.KernelOp:
    """Build the kernel of a group whose anchor reduces one dimension that is not the last."""
    kernel = Kernel(group, name)
    op = next(op for op in kernel.ops if isinstance(op, nn.ReduceOp))
    emit, tiles, kind = kernel.emit, kernel.tiles, op.kind.data
    shape, dims, element = extents(op.x.type), tile.values(op.dims), nn.element(op.x)
    if len(dims) != 1 or dims[0] == len(shape) - 1 or kind not in COMBINE:
        raise LoweringError(f"no kernel reduces dimensions {dims} of {len(shape)} by {kind}")
    (reduced,) = dims
    width = chunk_of(shape[-1], WIDEST)
    outer = tuple(n for d, n in enumerate(shape[:-1]) if d != reduced)
    at = kernel.unravel(kernel.program(1), outer) if outer else []
    lead = [Span(i, 1, inside=True) for i in at]
    whole = shape[-1].constant is not None and shape[-1].constant % width == 0
    columns = Span(emit.times(kernel.program(0), width), width, inside=whole)
    combine = COMBINE[kind][1 if isinstance(element, IntegerType) else 0]

    def step(i: SSAValue, total: SSAValue) -> Sequence[SSAValue]:
        index = [*lead, columns]
        index.insert(reduced, Span(i, 1, inside=True))
        x = emit.reshape(tiles.tile_of(op.x, tuple(index)), [width])
        return [emit.binary(combine, total, x)]

    start = emit.full(neutral(kind, element), element, [width])
    (total,) = tiles.loop(emit.index(0), emit.extent(shape[reduced]), emit.index(1), [start], step)
    tiles.fix(op.y, total)
    kernel.store(lead, columns)
    return kernel.finish([shape[-1].ceildiv(width), product(outer)])
