"""Bytes of a buffer: one stretch of them, or rows that begin at equal distances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lamina.dialects.bounds import proves_at_most
from lamina.dialects.dims import Dim, product


@dataclass(frozen=True)
class Area:
    """`rows` rows of `width` bytes; the first begins at `start`, the others `stride` bytes apart.

    A stretch of bytes is one row. What is said of two areas is said for all values of the symbols
    in them; False means that no proof was found.
    """

    start: Dim
    width: Dim
    rows: Dim
    stride: Dim

    @staticmethod
    def stretch(start: Dim, size: Dim) -> Area:
        """Return `size` bytes from `start` on."""
        return Area(start, size, _ONE, size)

    @staticmethod
    def columns(start: Dim, width: Dim, rows: Dim, stride: Dim) -> Area:
        """Return rows of `width` bytes that are `stride` apart: a stretch if nothing is between."""
        if rows == _ONE or width == stride:
            return Area.stretch(start, rows * width)
        return Area(start, width, rows, stride)

    @property
    def end(self) -> Dim:
        """Where the last row ends."""
        return self.start + (self.rows - 1) * self.stride + self.width

    @property
    def is_stretch(self) -> bool:
        """Whether nothing lies between the first and the last byte."""
        return self.rows == _ONE

    def moved(self, by: Dim) -> Area:
        """Return the area so many bytes further on."""
        return Area(self.start + by, self.width, self.rows, self.stride)

    def is_empty(self) -> bool:
        """Return whether there is no byte in it."""
        return self.width == 0 or self.rows == 0

    def apart(self, other: Area) -> bool:
        """Return whether no byte is in both: one ends first, or they are columns side by side."""
        if proves_at_most(self.end, other.start) or proves_at_most(other.end, self.start):
            return True
        if self.stride != other.stride or (self.is_stretch and other.is_stretch):
            return False
        return self._beside(other) or other._beside(self)

    def _beside(self, other: Area) -> bool:
        """Whether `other` has its columns between the end of a row of this and the next row."""
        away = other.start - self.start
        within = proves_at_most(away + other.width, self.stride)
        return within and proves_at_most(self.width, away)

    def holds(self, other: Area) -> bool:
        """Return whether all bytes of `other` are in this."""
        if other.is_empty() or self == other:
            return True
        if self.is_stretch:
            return proves_at_most(self.start, other.start) and proves_at_most(other.end, self.end)
        if (self.stride, self.rows) != (other.stride, other.rows):
            return False
        away = other.start - self.start
        return proves_at_most(_ZERO, away) and proves_at_most(away + other.width, self.width)

    def lies_within(self, size: Dim) -> bool:
        """Return whether a buffer of `size` bytes has all of this, its rows one after another."""
        ordered = self.is_stretch or proves_at_most(self.width, self.stride)
        return ordered and proves_at_most(_ZERO, self.start) and proves_at_most(self.end, size)

    def joined(self, other: Area) -> Area | None:
        """Return both as one area if `other` begins where this ends, or its rows do."""
        if self.start + self.width != other.start:
            return None
        if self.is_stretch and other.is_stretch:
            return Area.stretch(self.start, self.width + other.width)
        if (self.stride, self.rows) != (other.stride, other.rows):
            return None
        return Area.columns(self.start, self.width + other.width, self.rows, self.stride)


@dataclass(frozen=True)
class Columns:
    """Rows of the first `outer` dimensions of a buffer begin `stride` elements apart."""

    outer: int
    stride: Dim

    def strides(self, shape: Sequence[Dim]) -> tuple[Dim, ...]:
        """Return the distance of neighbours in each dimension, in elements."""
        rows, inner = shape[: self.outer], shape[self.outer :]
        return (*(each * self.stride for each in packed_strides(rows)), *packed_strides(inner))


def packed_strides(shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """Return the distance of neighbours in each dimension where all lies row by row."""
    return tuple(product(shape[d + 1 :]) for d in range(len(shape)))


_ZERO, _ONE = Dim.of(0), Dim.of(1)
