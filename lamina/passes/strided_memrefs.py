"""Let kernels take memrefs whose rows lie apart, by strides that are arguments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntAttr, MemRefType, StridedLayoutAttr
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import Rewriter

from lamina.dialects import tile


def may_be_strided(memref: SSAValue, outer: int) -> bool:
    """Whether a kernel's code is much the same where rows of this argument lie apart.

    They are counted by the first `outer` dimensions. Where their distance is a number in every
    address that a product reads, it stays one.
    """
    uses = [use.operation for use in memref.uses]
    if not all(isinstance(op, tile.LoadOp | tile.StoreOp | tile.PrefetchOp) for op in uses):
        return False
    shape = cast("MemRefType[Any]", memref.type).get_shape()
    if all(_packed(shape[d + 1 :]) is None for d in range(outer)):
        return True
    loads = [op.y for op in uses if isinstance(op, tile.LoadOp)]
    return not any(isinstance(op, tile.DotOp) for op in _followers(loads))


def make_strided(memref: SSAValue, outer: int) -> None:
    """Give a kernel's argument strides that are known when it is called.

    They are those of the first `outer` dimensions; the others lie row by row, as before.
    """
    kind = cast("MemRefType[Any]", memref.type)
    shape = kind.get_shape()
    known = dynamic_strides(memref.type)
    inner = [_packed(shape[d + 1 :]) for d in range(len(shape))]
    strides = [None if d < max(outer, known) else inner[d] for d in range(len(shape))]
    layout = StridedLayoutAttr(strides)
    Rewriter.replace_value_with_new_type(memref, MemRefType(kind.element_type, shape, layout))
    for use in memref.uses:
        if isinstance(use.operation, tile.StoreOp):
            # Rows that are not whole lines of memory would be written past a cache in pieces.
            use.operation.nontemporal = None


def dynamic_strides(kind: object) -> int:
    """Return in how many leading dimensions the strides of a memref are arguments."""
    layout = cast("MemRefType[Any]", kind).layout
    if not isinstance(layout, StridedLayoutAttr):
        return 0
    return sum(not isinstance(stride, IntAttr) for stride in layout.strides)


def _packed(extents: tuple[int, ...]) -> int | None:
    return None if DYNAMIC_INDEX in extents else prod(extents)


def _followers(values: Sequence[SSAValue]) -> Iterator[Operation]:
    """Yield what is computed from values, in the same region."""
    pending, seen = [*values], set[SSAValue]()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        for use in value.uses:
            yield use.operation
            pending += use.operation.results
