"""Where the elements of a matrix lie that a descriptor says is in shared memory.

The layouts are those of the PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from lamina.targets.reference.dtypes import Array

_WIDTHS = {0: 1, 1: 8, 2: 4, 3: 2}
"""The swizzle that a descriptor names, in units of 16 bytes; 1 is none."""


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A start address, two distances in bytes, and the width that is swizzled, in 16 bytes."""

    start: int
    leading: int
    stride: int
    width: int

    @classmethod
    def of(cls, word: int) -> Descriptor:
        """Return what the 64 bits of a descriptor say."""
        return cls(
            (word & 0x3FFF) << 4,
            (word >> 16 & 0x3FFF) << 4,
            (word >> 32 & 0x3FFF) << 4,
            _WIDTHS[word >> 62 & 3],
        )

    def addresses(self, rows: int, columns: int, size: int, *, transposed: bool) -> Array:
        """Return the address of each element of `size` bytes of a matrix.

        `columns` is the dimension that is contracted; it is contiguous unless `transposed`.
        """
        make = _across if transposed else _along
        found = self.start + make(self.leading, self.stride, self.width, rows, columns, size)
        return swizzled(found, self.width)


def swizzled(address: Any, width: int) -> Any:
    """Exchange units of 16 bytes by the number of the line of 128 bytes that they are in."""
    return address ^ ((address >> 7) & (width - 1)) << 4


@cache
def _along(leading: int, stride: int, width: int, rows: int, columns: int, size: int) -> Array:
    row = np.arange(rows)[:, None]
    byte = np.arange(columns)[None, :] * size
    start = row // 8 * stride + row % 8 * 16 * width
    return start + (byte if width > 1 else byte // 16 * leading + byte % 16)


@cache
def _across(leading: int, stride: int, width: int, rows: int, columns: int, size: int) -> Array:
    row = np.arange(rows)[:, None]
    column = np.arange(columns)[None, :]
    unit = 16 * width // size
    far, near = (stride, leading) if width == 1 else (leading, stride)
    within = row % unit * size + column % 8 * 16 * width
    return row // unit * far + column // 8 * near + within
