"""How the columns of K of a product that threads share are parted: the order of its sums.

Threads that have few rows have columns of K apart; those that have many go through all. For both
to give the same bits, a sum is one of partial sums: blocks of 32 columns are dealt to `count` of
them, each a chain in ascending order, and these are added in ascending order, beginning with 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MOST: Final = 32
"""Partial sums of an element: as many as a subgroup of most GPUs has threads."""

WASTE: Final = 8
"""Of so many blocks at least, one may be gone through in vain."""


@dataclass(frozen=True)
class DepthParts:
    """`blocks` blocks dealt to `count` partial sums, round by round.

    A round has as many blocks as there are partial sums, one after the other. Of the blocks that
    are left, the last one belongs to the last partial sum.
    """

    blocks: int
    count: int

    @staticmethod
    def of(blocks: int) -> DepthParts:
        """Return the parts of so many blocks, which depend on nothing else.

        They are as many as threads can share evenly, and few rounds are done in vain.
        """
        most = min(MOST, blocks)
        even = [count for count in range(most, 0, -1) if _is_even(count)]
        exact = next(count for count in even if blocks % count == 0)
        if 2 * exact >= most:
            return DepthParts(blocks, exact)
        spent = ((count, -(-blocks // count) * count) for count in even)
        return DepthParts(
            blocks, next(count for count, n in spent if n * WASTE <= blocks * (WASTE + 1))
        )

    @property
    def rounds(self) -> int:
        """Whole rounds."""
        return self.blocks // self.count

    @property
    def rest(self) -> int:
        """Blocks that are left after the whole rounds."""
        return self.blocks % self.count


def _is_even(count: int) -> bool:
    """Whether a number has no prime factors but 2 and 3."""
    for factor in (2, 3):
        while count % factor == 0:
            count //= factor
    return count == 1
