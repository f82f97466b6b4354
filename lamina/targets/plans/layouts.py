"""How the elements of a kernel's memref lie, as far as its type says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntAttr, MemRefType, StridedLayoutAttr
from xdsl.ir import Attribute

from lamina.dialects.plan import element_bytes
from lamina.errors import LoweringError


@dataclass(frozen=True)
class Layout:
    """The static part of a memref type; None stands for what is known only at run time.

    Strides are in elements, None for a memref that is packed row by row; `offset` in bytes.
    """

    extents: tuple[int | None, ...]
    strides: tuple[int | None, ...] | None
    offset: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents, -1 for one that is known only at run time."""
        return tuple(-1 if extent is None else extent for extent in self.extents)

    @property
    def slots(self) -> int:
        """The number of words that describe a memref of this layout in a kernel's arguments."""
        return 1 + self.extents.count(None) + (self.strides or ()).count(None)


def layout(type: Attribute) -> Layout:
    """Return the layout of a memref type; LoweringError if it is neither packed nor strided."""
    memref = cast("MemRefType[Any]", type)
    extents = tuple(None if n == DYNAMIC_INDEX else n for n in memref.get_shape())
    if not isinstance(memref.layout, StridedLayoutAttr):
        if memref.get_strides() is None:
            raise LoweringError(f"{type} has no address: expected no layout, or a strided one")
        return Layout(extents, None, 0)
    strides = tuple(s.data if isinstance(s, IntAttr) else None for s in memref.layout.strides)
    start = memref.layout.offset
    if not isinstance(start, IntAttr):
        raise LoweringError(f"{type} has no address: its offset must be static")
    return Layout(extents, strides, start.data * element_bytes(memref.element_type))
