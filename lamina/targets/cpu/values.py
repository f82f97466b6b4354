"""A tile in registers: its elements in row order, cut into equal LLVM vectors, made on demand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Protocol

from lamina.targets.cpu.elements import Element

if TYPE_CHECKING:
    from lamina.targets.cpu.builder import Builder
    from lamina.targets.cpu.features import CpuFeatures

Part = Callable[[int], str]


class Memory(Protocol):
    """A load that has not happened: its elements can still be fetched where they are used."""

    def splat(self, first: int, bits: int, lanes: int) -> str | None:
        """Return `lanes` copies of the `bits` at element `first`, or None if it is too late."""
        ...


class Tile:
    """`shape` elements in parts of `width` lanes; a scalar has shape () and width 0.

    Parts come from `make` when they are first asked for, and are written in the scope where the
    tile was made (`home`), whoever asks. `copy` points to memory that holds the elements too.
    """

    def __init__(
        self,
        builder: Builder,
        element: Element,
        shape: Sequence[int],
        width: int,
        make: Part,
        *,
        memory: Memory | None = None,
        lane: Part | None = None,
    ) -> None:
        self.element = element
        self.shape = tuple(shape)
        self.width = width
        self.memory = memory
        self._builder = builder
        self._make = make
        self._lane = lane
        self.home = builder.level
        self.copy: str | None = None
        self._parts: dict[int, str] = {}

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def count(self) -> int:
        """The number of parts."""
        return self.size // (self.width or 1)

    @property
    def type(self) -> str:
        """The LLVM type of a part."""
        return self.element.of(self.width)

    def part(self, index: int) -> str:
        """Return the name of one part, written if it was not yet."""
        name = self._parts.get(index)
        if name is None:
            with self._builder.at(self.home):
                name = self._parts[index] = self._make(index)
        return name

    def force(self) -> list[str]:
        """Return the names of all parts."""
        return [self.part(index) for index in range(self.count)]

    def lane(self, index: int) -> str:
        """Return one element as a scalar, by the cheapest way known."""
        if self._lane is not None:
            with self._builder.at(self.home):
                return self._lane(index)
        if not self.width:
            return self.part(0)
        part = self.part(index // self.width)
        text = f"extractelement {self.type} {part}, i64 {index % self.width}"
        return self._builder.pure(text, part)

    @property
    def scalars(self) -> bool:
        """Whether `lane` computes an element by itself."""
        return self._lane is not None or not self.width


def chunk(shape: Sequence[int], element: Element, features: CpuFeatures) -> int:
    """Return the lanes of a part for a tile of this type: as many whole rows as a register holds.

    A row longer than a register is cut by its largest power of two that fits, or, where that is
    less than half a register, by its largest divisor that fits.
    """
    if not shape:
        return 0
    lanes, width = features.lanes(element.bits), 1
    for extent in reversed(shape):
        if width * extent > lanes:
            return width * _divisor(extent, lanes // width)
        width *= extent
    return width


def _divisor(extent: int, most: int) -> int:
    power = min(extent & -extent, 1 << (most.bit_length() - 1))
    if 2 * power >= most:
        return power
    return max(d for d in range(1, most + 1) if extent % d == 0)
