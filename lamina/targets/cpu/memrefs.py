"""Where a memref's elements lie: its pointer, extents and strides, as LLVM scalars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from xdsl.ir import SSAValue

from lamina.targets.cpu.builder import Builder
from lamina.targets.cpu.elements import Element
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


def packed_strides(builder: Builder, extents: Sequence[str]) -> tuple[str, ...]:
    """Return the strides of a row-major array of these extents."""
    strides = ["1"]
    for extent in reversed(extents[1:]):
        strides.append(multiply(builder, strides[-1], extent))
    return tuple(reversed(strides[: len(extents)]))


def alignment(*terms: int) -> int:
    """Return the alignment of an address that is 64-byte aligned plus multiples of `terms`."""
    return gcd(64, *terms)
