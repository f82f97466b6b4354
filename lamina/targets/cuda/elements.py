"""The element types of registers as LLVM sees them, and the spelling of their constants."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import ml_dtypes
import numpy as np

from lamina.dialects.tile import element_of, shape_of
from lamina.errors import LoweringError

if TYPE_CHECKING:
    from xdsl.ir import Attribute


@dataclass(frozen=True)
class Element:
    """An element type: its LLVM type in registers, its bits, and its LLVM type in memory."""

    name: str
    llvm: str
    bits: int
    floating: bool = False

    @property
    def memory(self) -> str:
        """The LLVM type in memory: an i1 takes a byte."""
        return "i8" if self.bits == 1 else self.llvm

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return max(self.bits, 8) // 8

    def of(self, count: int) -> str:
        """Return the LLVM type of `count` registers; 0 is a scalar."""
        return f"<{count} x {self.llvm}>" if count else self.llvm


_ELEMENTS: Final = {
    each.name: each
    for each in (
        *(Element(f"i{bits}", f"i{bits}", bits) for bits in (1, 8, 16, 32, 64)),
        Element("index", "i64", 64),
        Element("f16", "half", 16, floating=True),
        Element("bf16", "bfloat", 16, floating=True),
        Element("f32", "float", 32, floating=True),
        Element("f64", "double", 64, floating=True),
    )
}


def element(type: Attribute) -> Element:
    """Return the element of a scalar, vector or memref; LoweringError if there is none such."""
    name = str(element_of(type))
    if name not in _ELEMENTS:
        raise LoweringError(f"cuda has no elements of type {name}")
    return _ELEMENTS[name]


def count_of(type: Attribute) -> int:
    """Return the number of registers of a vector; of a scalar, 0."""
    shape = shape_of(type)
    return shape[0] if shape else 0


def llvm_type(type: Attribute) -> str:
    """Return the LLVM type of a scalar or vector."""
    return element(type).of(count_of(type))


def literal(kind: Element, value: Any) -> str:
    """Return a number as LLVM spells it."""
    if not kind.floating:
        number = int(value)
        return ("true" if number & 1 else "false") if kind.bits == 1 else str(number)
    if kind.name == "f16":
        return f"0xH{int(np.float16(value).view(np.uint16)):04X}"
    if kind.name == "bf16":
        return f"0xR{int(ml_dtypes.bfloat16(value).view(np.uint16)):04X}"
    number = float(np.float32(value)) if kind.name == "f32" else float(value)
    return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"


def zero(kind: Element) -> str:
    """Return 0."""
    return literal(kind, 0)
