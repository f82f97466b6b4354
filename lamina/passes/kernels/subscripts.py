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
    """The elements at a vector of indices; `inside` unless some may be outside.

    Those that are `zipped` are taken together, place by place: the first one's size is that of
    the vectors, the others' sizes are 1.
    """

    indices: SSAValue
    size: int
    inside: bool = True
    zipped: bool = False


Subscript = Span | Rows
Index = tuple[Subscript, ...]


def sizes(index: Index) -> tuple[int, ...]:
    """Return the shape of the tile at `index`."""
    return tuple(sub.size for sub in index)
