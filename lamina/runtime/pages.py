"""Who has which pages of the pools."""

from collections.abc import Iterable
from itertools import count
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lamina.own_lock import OwnLock

PageIds = NDArray[np.int32]

_NOBODY: Final = 0


class PageAllocator(OwnLock):
    """Lends pages to sequences; a page belongs to one owner at a time.

    Which pages are free follows from one array of owners, changed by single assignments, so an
    interrupt at any point neither loses a page nor lends one twice. Threads may share it.
    """

    count: int
    """Pages in all."""

    def __init__(self, count: int, seed: int | None = None) -> None:
        """Own `count` free pages, lent in ascending order, or in the random order of `seed`."""
        super().__init__()
        self.count = count
        self._owner = np.zeros(count, np.int64)
        self._order = np.arange(count, dtype=np.int32)
        if seed is not None:
            np.random.default_rng(seed).shuffle(self._order)
        self._owners = _numbers()

    @property
    def free(self) -> int:
        """Pages that nobody has."""
        return int(np.count_nonzero(self._owner == _NOBODY))

    def new_owner(self) -> int:
        """Return a number that no other sequence has; it has no pages yet."""
        return next(self._owners)

    def take(self, owner: int, count: int) -> PageIds | None:
        """Give `owner` the pages of its next `count` blocks, in order; None if too few are free."""
        with self._lock:
            free = self._order[self._owner[self._order] == _NOBODY]
            if len(free) < count:
                return None
            pages = free[:count]
            self._owner[pages] = owner
            return pages

    def give_back(self, owners: Iterable[int]) -> None:
        """Free every page that one of `owners` has, if any."""
        self._owner[np.isin(self._owner, list(owners))] = _NOBODY


def _numbers() -> "count[int]":
    return count(_NOBODY + 1)
