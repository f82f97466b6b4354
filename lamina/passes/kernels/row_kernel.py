"""Build kernels that go through rows: elementwise chains, norms, softmax, reductions, writes."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from lamina.dialects import cache, nn, quant, tile
from lamina.dialects.dims import Dim, product
from lamina.dialects.tensors import extents
from lamina.passes.kernels.kernel import Kernel
from lamina.passes.kernels.maps import turns_whole_heads
from lamina.passes.kernels.rows import STATISTICS, chunk_of, find_statistics, over_row
from lamina.passes.kernels.subscripts import Span, Subscript

WIDEST = 32
"""Elements of a row that are taken at once; part of the arithmetic's order, so one number."""


def domain(kernel: Kernel) -> tuple[Dim, ...]:
    """Return the extents that a row kernel goes through: of what it must know first, or gives."""
    values = [op.operands[0] for op in kernel.ops if type(op) in STATISTICS]
    for value in () if values else kernel.yields:
        owner = value.owner
        if isinstance(owner, cache.WriteOp | quant.QuantizeOp):
            values.append(owner.x)
        else:
            values.append(value)
    return max((extents(value.type) for value in values), key=len)


def build_rows(group: nn.GroupOp, name: str) -> tile.KernelOp:
    """Build a kernel whose programs take one row each, chunk by chunk."""
    kernel = Kernel(group, name)
    shape = domain(kernel)
    lead = shape[:-1]
    flat = kernel.program(0)
    rows: list[Subscript] = [Span(i, 1, inside=True) for i in kernel.unravel(flat, lead)]
    rows = rows if lead else []
    for op in kernel.ops:
        if isinstance(op, nn.SoftmaxOp) and op.y in kernel.yields and nn.element(op.y) == f32:
            kernel.tiles.rooms[op] = kernel.result(kernel.yields.index(op.y))
    find_statistics(kernel.tiles, kernel.ops, tuple(rows), WIDEST)
    if _is_reduced(kernel, shape):
        kernel.store(rows, Span(kernel.emit.index(0), 1, inside=True))
    elif shape:
        chunk = _chunk(kernel, shape[-1])

        def body(span: Span, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
            kernel.store(rows, span)
            return []

        over_row(kernel.tiles, shape[-1], chunk, body)
    else:
        kernel.store([], Span(kernel.emit.index(0), 1, inside=True))
    return kernel.finish([product(lead)], whole_rows=True)


def _chunk(kernel: Kernel, extent: Dim) -> int:
    """How many columns are finished at once: a whole head, where it is rotated as one."""
    ropes = [op for op in kernel.ops if isinstance(op, nn.RopeOp) and turns_whole_heads(op)]
    if ropes:
        return extents(ropes[0].x.type)[-1].evaluate({})
    return chunk_of(extent, WIDEST)


def _is_reduced(kernel: Kernel, shape: tuple[Dim, ...]) -> bool:
    """Whether the results have one element a row."""
    reduces = any(isinstance(op, nn.ReduceOp) for op in kernel.ops)
    return reduces and all(len(extents(y.type)) < len(shape) for y in kernel.yields)
