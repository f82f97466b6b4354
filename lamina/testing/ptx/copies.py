"""Asynchronous copies into shared memory (`cp.async`) that have not been waited for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lamina.targets.reference.dtypes import Array


@dataclass(frozen=True)
class Copy:
    """What one instruction copies: for each thread the place, the bytes and the group."""

    who: Array
    addresses: Array
    places: Array
    data: Array
    group: Array
    number: int

    def part(self, chosen: Array) -> Copy:
        """Return the copy of some of the threads."""
        return Copy(
            self.who[chosen],
            self.addresses[chosen],
            self.places[chosen],
            self.data[chosen],
            self.group[chosen],
            self.number,
        )


class Copies:
    """The copies under way, oldest first, and how many groups each thread has committed."""

    def __init__(self, threads: int) -> None:
        self.committed: Array = np.zeros(threads, np.int64)
        self._under_way: list[Copy] = []
        self._started = 0

    def start(self, who: Array, addresses: Array, places: Array, data: Array) -> None:
        """Add a copy to the open group of each thread."""
        group = self.committed[who]
        self._under_way.append(Copy(who, addresses, places, data, group, self._started))
        self._started += 1

    def number(self) -> int:
        """Return how many copies were started so far."""
        return self._started

    def arrive(
        self, waiting: Array, newest: int | None, until: int | None = None
    ) -> Iterator[Copy]:
        """Take the copies of threads whose groups are done once `newest` groups may be left.

        With None, all of them, in groups or not; with `until`, only as many as were started then.
        """
        left: list[Copy] = []
        for copy in self._under_way:
            done = waiting[copy.who]
            if until is not None and copy.number >= until:
                done = np.zeros(len(copy.who), np.bool_)
            if newest is not None:
                done = done & (copy.group < self.committed[copy.who] - newest)
            if done.all():
                yield copy
            elif done.any():
                yield copy.part(done)
                left.append(copy.part(~done))
            else:
                left.append(copy)
        self._under_way = left
