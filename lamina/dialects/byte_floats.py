"""Floats of 8 bits or fewer, as they are stored: one in a byte.

Micikevicius et al., FP8 Formats for Deep Learning, 2022; Open Compute Project, OCP Microscaling
Formats, 2023; the `fnuz` forms as ONNX describes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class ByteFloat:
    """A sign, `exponent` bits biased by `bias`, and `mantissa` bits: the lowest of a byte.

    `largest` is the code of the largest number, `overflow` what a larger one becomes unless it
    is cut to that (with its sign, if that fits beside it), `missing` is NaN. With `one_zero`
    there is no -0, whose code is the NaN.
    """

    exponent: int
    mantissa: int
    bias: int
    largest: int
    overflow: int
    missing: int
    infinity: int | None = None
    one_zero: bool = False

    @property
    def has_nan(self) -> bool:
        """Whether there is a NaN; else a number that is none becomes -0."""
        return self.exponent > 2

    @property
    def width(self) -> int:
        """The bits of a code without its sign."""
        return self.exponent + self.mantissa


BYTE_FLOATS: Final = {
    "f8e4m3fn": ByteFloat(4, 3, 7, 0x7E, 0x7F, 0x7F),
    "f8e4m3fnuz": ByteFloat(4, 3, 8, 0x7F, 0x80, 0x80, one_zero=True),
    "f8e5m2": ByteFloat(5, 2, 15, 0x7B, 0x7C, 0x7E, infinity=0x7C),
    "f8e5m2fnuz": ByteFloat(5, 2, 16, 0x7F, 0x80, 0x80, one_zero=True),
    "f4e2m1fn": ByteFloat(2, 1, 1, 0x7, 0x7, 0x8),
}
"""By name: the bits of exponent and mantissa; `fn` has no infinities, `uz` no -0.

f4e2m1fn has no NaN either: it is -0 there.
"""
