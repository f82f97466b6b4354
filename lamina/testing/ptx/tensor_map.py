"""Descriptions of tensors in global memory, from which boxes are copied (`CUtensorMap`).

Hardware's own encoding is secret; this one is made and read here alone.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from lamina.errors import InputError
from lamina.targets.reference.dtypes import Array

SIZE = 128
"""Bytes of a description."""

_FORMAT = "<4sBBBxQ5I4Q5H"
_MAGIC = b"TMAP"


@dataclass(frozen=True)
class TensorMap:
    """A tensor: bytes of an element, address, extents and distances, innermost first.

    `box` is what one copy takes, `width` the units of 16 bytes that it is swizzled over (1: not).
    """

    size: int
    address: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    width: int

    @property
    def bytes_of_box(self) -> int:
        """Bytes that a copy brings, those outside the tensor as zeros."""
        return int(np.prod(self.box)) * self.size

    def encode(self) -> bytes:
        """Return the description. Raises `InputError` where hardware would refuse it."""
        rank = len(self.extents)
        if not 1 <= rank <= 5 or len(self.box) != rank or len(self.strides) != rank - 1:
            raise InputError(f"a tensor map of rank {rank}, with as many extents of its box")
        if self.address % 16 or any(stride % 16 for stride in self.strides):
            raise InputError("the address and the strides of a tensor map are multiples of 16")
        if any(not 1 <= n <= 256 for n in self.box) or self.box[0] * self.size % 16:
            raise InputError(f"a box of {self.box}: at most 256, rows a multiple of 16 bytes")
        if self.width > 1 and self.box[0] * self.size > 16 * self.width:
            raise InputError("rows of the box are wider than what is swizzled")
        packed = struct.pack(
            _FORMAT,
            _MAGIC,
            self.size,
            rank,
            self.width,
            self.address,
            *(*self.extents, *[1] * (5 - rank)),
            *(*self.strides, *[0] * (5 - rank)),
            *(*self.box, *[1] * (5 - rank)),
        )
        return packed.ljust(SIZE, b"\0")

    @classmethod
    def decode(cls, octets: bytes) -> TensorMap | None:
        """Return what a description says, or None if it is none."""
        magic, size, rank, width, address, *rest = struct.unpack_from(_FORMAT, octets)
        if magic != _MAGIC:
            return None
        extents, strides, box = rest[:5], rest[5:9], rest[9:]
        return cls(
            size,
            address,
            tuple(extents[:rank]),
            tuple(strides[: rank - 1]),
            tuple(box[:rank]),
            width,
        )

    def elements(self, start: tuple[int, ...]) -> tuple[Array, Array]:
        """Return the address of every element of a box, and which are inside the tensor.

        In the order of the box in shared memory: innermost first.
        """
        addresses = np.array(self.address, np.int64)
        inside = np.array(True)
        for first, extent, count, stride in zip(
            start, self.extents, self.box, (self.size, *self.strides), strict=True
        ):
            at = first + np.arange(count)
            addresses = (at * stride)[:, None] + addresses.ravel()[None, :]
            inside = ((at >= 0) & (at < extent))[:, None] & inside.ravel()[None, :]
        return addresses.ravel(), inside.ravel()
