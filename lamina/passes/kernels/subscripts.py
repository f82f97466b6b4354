"""Where a tile lies in a tensor: one `Span` or one `Rows` for each dimension."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import SSAValue


@dataclass(frozen=True)
class Span:
    """`size` elements from index `start` on; `inside` if none of them is ever outside.

    `limit` is an exclusive bound below the extent.
    """

    start: SSAValue
    size: int
    inside: bool = False
    limit: SSAValue | None = None


@dataclass(frozen=True)
class Rows:
    """The elements at a vector of indices; `inside` unless some may be outside."""

    indices: SSAValue
    size: int
    inside: bool = True


Subscript = Span | Rows
Index = tuple[Subscript, ...]


def sizes(index: Index) -> tuple[int, ...]:
    """Return the shape of the tile at `index`."""
    return tuple(sub.size for sub in index)
