"""Memory of any size on a device, whose buffers and bindings have limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Storage:
    """Memory on a device: buffers in a row, each of `each` bytes but the last; `size` in all."""

    parts: tuple[Any, ...]
    each: int
    size: int

    def destroy(self) -> None:
        """Give it back; nothing may use it any more."""
        for part in self.parts:
            part.destroy()

    def pieces(self, offset: int, size: int, most: int | None = None) -> Iterator[Window]:
        """Yield where `size` bytes from byte `offset` on lie, at most `most` of them at a time."""
        end = offset + size
        while offset < end:
            number, start = divmod(offset, self.each)
            taken = min(end - offset, self.each - start, most or size)
            yield Window(self.parts[number], start, taken)
            offset += taken


class Window(NamedTuple):
    """Bytes of a buffer: where they begin, and how many they are."""

    buffer: Any
    start: int
    size: int


@dataclass(frozen=True)
class Bound:
    """The windows that hold an array, in order, and the bytes of the first one before it."""

    windows: tuple[Window, ...]
    before: int


def bound(storage: Storage, offset: int, span: int, most: int, alignment: int) -> Bound:
    """Return windows of at most `most` bytes on an array of `span` bytes from byte `offset` on.

    All but the last have `most` bytes, which divides those of a part of the storage, so that none
    has bytes of two parts; each begins at a multiple of `alignment`, which divides `most`.
    """
    step = alignment if len(storage.parts) == 1 else most
    # An empty array may begin where its memory ends.
    start = min(offset, storage.size - 4) // step * step
    before = offset - start
    size = min(max(4, -(-(before + span) // 4) * 4), storage.size - start)
    windows: list[Window] = []
    for first in range(start, start + size, most):
        windows += storage.pieces(first, min(most, start + size - first))
    return Bound(tuple(windows), before)
