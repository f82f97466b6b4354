"""The element types of tiles as LLVM sees them, and the spelling of their constants."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

from lamina.errors import LoweringError

if TYPE_CHECKING:
    from xdsl.ir import Attribute


@dataclass(frozen=True)
class Element:
    """An element type: its name in the IR, its LLVM type in registers and its bits.

    The 16-bit floats are held as i16 patterns, so that moving, masking and storing them needs no
    support for the type; arithmetic converts. `stored` is the LLVM type in memory.
    """

    name: str
    llvm: str
    bits: int
    floating: bool = False
    stored: str = ""

    @property
    def size(self) -> int:
        """Bytes in memory; an i1 takes one."""
        return max(self.bits, 8) // 8

    @property
    def memory(self) -> str:
        """The LLVM type in memory."""
        return self.stored or self.llvm

    @property
    def half(self) -> bool:
        """Whether this is a 16-bit float, held as its bits."""
        return self.floating and self.bits == 16

    def of(self, width: int) -> str:
        """Return the LLVM type of `width` lanes; 0 is the scalar."""
        return f"<{width} x {self.llvm}>" if width else self.llvm


I1: Final = Element("i1", "i1", 1, stored="i8")
I8: Final = Element("i8", "i8", 8)
I16: Final = Element("i16", "i16", 16)
I32: Final = Element("i32", "i32", 32)
I64: Final = Element("i64", "i64", 64)
INDEX: Final = Element("index", "i64", 64)
F16: Final = Element("f16", "i16", 16, floating=True)
BF16: Final = Element("bf16", "i16", 16, floating=True)
F32: Final = Element("f32", "float", 32, floating=True)
F64: Final = Element("f64", "double", 64, floating=True)

ELEMENTS: Final = {e.name: e for e in (I1, I8, I16, I32, I64, INDEX, F16, BF16, F32, F64)}


@lru_cache(maxsize=1024)
def element(type: Attribute) -> Element:
    """Return the element of a scalar, vector or memref type; LoweringError if it is unknown."""
    from lamina.dialects.tile import element_of

    name = str(element_of(type))
    if name not in ELEMENTS:
        raise LoweringError(f"cpu has no registers for {name}: expected one of {sorted(ELEMENTS)}")
    return ELEMENTS[name]


def literal(kind: Element, value: float) -> str:
    """Return the LLVM spelling of one constant of `kind`, NaN and infinities included."""
    if kind.bits == 1:
        return "true" if value else "false"
    if not kind.floating:
        return str(int(value))
    if kind.bits < 32:
        return str(_half_bits(kind, value))
    (bits,) = struct.unpack("<Q", struct.pack("<d", _rounded(kind, value)))
    return f"0x{bits:016X}"


def splat_literal(kind: Element, width: int, value: float) -> str:
    """Return `width` lanes of one constant, without its type; width 0 is the scalar."""
    text = literal(kind, value)
    return f"splat ({kind.llvm} {text})" if width else text


def vector_literal(kind: Element, lanes: list[Any]) -> str:
    """Return a constant vector of these lanes, without its type."""
    texts = [literal(kind, lane) for lane in lanes]
    if len(set(texts)) == 1:
        return f"splat ({kind.llvm} {texts[0]})"
    return "<" + ", ".join(f"{kind.llvm} {text}" for text in texts) + ">"


def _rounded(kind: Element, value: float) -> float:
    import numpy as np

    with np.errstate(over="ignore"):
        return float(np.float32(value)) if kind.bits == 32 else float(value)


def _half_bits(kind: Element, value: float) -> int:
    import ml_dtypes
    import numpy as np

    with np.errstate(over="ignore"):
        number = np.float16(value) if kind is F16 else ml_dtypes.bfloat16(value)
    return int(cast("Any", np.asarray(number)).view(np.int16))
