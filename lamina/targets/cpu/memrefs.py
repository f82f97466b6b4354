"""Where a memref's elements lie: its pointer, extents and strides, as LLVM scalars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntAttr, MemRefType, StridedLayoutAttr
from xdsl.ir import Attribute, SSAValue

from lamina.errors import LoweringError
from lamina.targets.cpu.builder import Builder
from lamina.targets.cpu.elements import Element, element
from lamina.targets.cpu.integers import constant, multiply


@dataclass(frozen=True)
class Memref:
    """The memory behind the value `root`: extents and strides (in elements) are i64 texts.

    `constant` says that nothing writes it while the kernel runs; `offset` bytes are between
    `pointer`, which is 64-byte aligned, and the first element.
    """

    root: SSAValue
    element: Element
    pointer: str
    extents: tuple[str, ...]
    strides: tuple[str, ...]
    constant: bool = False
    offset: int = 0

    def stride_bytes(self, dim: int) -> int | None:
        """Return the bytes between neighbours in `dim`, None if that is dynamic."""
        stride = constant(self.strides[dim])
        return None if stride is None else stride * self.element.size


@dataclass(frozen=True)
class Layout:
    """The static part of a memref type; None stands for what is known only at run time."""

    extents: tuple[int | None, ...]
    strides: tuple[int | None, ...] | None
    offset: int

    @property
    def slots(self) -> int:
        """The number of i64 that describe a memref of this layout in a kernel's arguments."""
        return 1 + self.extents.count(None) + (self.strides or ()).count(None)


def layout(type: Attribute) -> Layout:
    """Return the layout of a memref type; LoweringError if it is neither packed nor strided."""
    memref = cast("MemRefType[Any]", type)
    extents = tuple(None if n == DYNAMIC_INDEX else n for n in memref.get_shape())
    if not isinstance(memref.layout, StridedLayoutAttr):
        if memref.get_strides() is None:
            raise LoweringError(f"cpu cannot address {type}: expected no layout, or a strided one")
        return Layout(extents, None, 0)
    strides = tuple(s.data if isinstance(s, IntAttr) else None for s in memref.layout.strides)
    start = memref.layout.offset
    if not isinstance(start, IntAttr):
        raise LoweringError(f"cpu cannot address {type}: its offset must be static")
    return Layout(extents, strides, start.data * element(type).size)


def packed_strides(builder: Builder, extents: Sequence[str]) -> tuple[str, ...]:
    """Return the strides of a row-major array of these extents."""
    strides = ["1"]
    for extent in reversed(extents[1:]):
        strides.append(multiply(builder, strides[-1], extent))
    return tuple(reversed(strides[: len(extents)]))


def alignment(*terms: int) -> int:
    """Return the alignment of an address that is 64-byte aligned plus multiples of `terms`."""
    return gcd(64, *terms)
