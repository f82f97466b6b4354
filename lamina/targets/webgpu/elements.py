"""The element types of kernels as WGSL holds them in registers and in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lamina.targets.shading.elements import finder


@dataclass(frozen=True)
class Element:
    """An element type: its name in the IR, the WGSL type of a register, and its bits in memory.

    Integers narrower than 32 bits are held sign-extended, 16-bit floats as the f32 of equal value,
    64-bit integers as their lower and upper half, and an index, which is below 2^31, in 32 bits.
    """

    name: str
    wgsl: str
    bits: int

    @property
    def register(self) -> str:
        """The type of a register."""
        return self.wgsl

    @property
    def floating(self) -> bool:
        """Whether this is a float."""
        return self.wgsl == "f32"

    @property
    def narrow(self) -> bool:
        """Whether several share a word of memory."""
        return self.bits < 32

    @property
    def wide(self) -> bool:
        """Whether a register is two halves."""
        return self.wgsl == PAIR

    @property
    def shared(self) -> str:
        """The WGSL type of what threads exchange."""
        return "u32" if self.wgsl == "bool" else self.wgsl

    @property
    def zero(self) -> str:
        """The spelling of zero."""
        return ZEROS[self.wgsl]


PAIR: Final = "vec2<u32>"
"""The two halves of a 64-bit integer."""

ZEROS: Final = {"f32": "0.0f", "i32": "0i", "bool": "false", PAIR: f"{PAIR}()"}

ELEMENTS: Final = {
    each.name: each
    for each in (
        Element("i1", "bool", 8),
        Element("i8", "i32", 8),
        Element("i16", "i32", 16),
        Element("i32", "i32", 32),
        Element("i64", PAIR, 64),
        Element("index", "i32", 64),
        Element("f16", "f32", 16),
        Element("bf16", "f32", 16),
        Element("f32", "f32", 32),
    )
}
"""By the name in the IR; what is missing is refused."""

element: Final = finder("webgpu", ELEMENTS)
"""Returns the element of a scalar, vector or memref type; LoweringError if there is none."""
