"""The element types of kernels as the Metal Shading Language has them, in registers and memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lamina.targets.shading.elements import finder


@dataclass(frozen=True)
class Element:
    """An element type: its name in the IR, the type of a register, the type in memory, its bits.

    Integers narrower than 32 bits are held sign-extended, 16-bit floats as the float of equal
    value. `bits` are those of the data, 64 for an index, whose register has 32.
    """

    name: str
    register: str
    memory: str
    bits: int

    @property
    def floating(self) -> bool:
        """Whether this is a float."""
        return self.register == "float"

    @property
    def narrow(self) -> bool:
        """Whether a register has more bits than the data."""
        return self.bits < 32

    @property
    def boolean(self) -> bool:
        """Whether this is a truth value."""
        return self.register == "bool"

    @property
    def unsigned(self) -> str:
        """The type of as many bits as a register that has no sign."""
        return "ulong" if self.register == "long" else "uint"

    @property
    def zero(self) -> str:
        """The spelling of zero."""
        return ZEROS[self.register]


ZEROS: Final = {"float": "0.0f", "int": "0", "long": "0", "bool": "false"}

ELEMENTS: Final = {
    each.name: each
    for each in (
        Element("i1", "bool", "uchar", 8),
        Element("i8", "int", "char", 8),
        Element("i16", "int", "short", 16),
        Element("i32", "int", "int", 32),
        Element("i64", "long", "long", 64),
        Element("index", "int", "long", 64),
        Element("f16", "float", "half", 16),
        Element("bf16", "float", "bfloat", 16),
        Element("f32", "float", "float", 32),
    )
}
"""By the name in the IR; what is missing is refused."""

element: Final = finder("metal", ELEMENTS)
"""Returns the element of a scalar, vector or memref type; LoweringError if there is none."""
