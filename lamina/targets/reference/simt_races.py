"""Who touched which element of a memory, and where two threads or two blocks meet in one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lamina.targets.reference.dtypes import Array

MANY = -1
"""In place of one reader: several."""

_LAUNCH = 1
"""The era in which blocks meet: all of them may run at once."""


class Meeting(NamedTuple):
    """Where in a list of elements somebody met another one, and what that one did before."""

    position: int
    other: int
    blocks: bool
    wrote: bool


class Races:
    """What has become of the elements of a memory: `blocks` says whether blocks share it."""

    def __init__(self, size: int, *, blocks: bool) -> None:
        self._threads = _Touched(size)
        self._blocks = _Touched(size) if blocks else None

    def read(self, at: Array, threads: Array, block: int, interval: int) -> Meeting | None:
        """Note that `threads` read the elements `at`; return where one meets a writer, if any.

        Threads meet within an `interval` between barriers, counted from 1 through all blocks.
        """
        if self._blocks is not None:
            meeting = self._blocks.read(at, np.broadcast_to(np.int32(block), at.shape), _LAUNCH)
            if meeting is not None:
                return Meeting(*meeting, blocks=True, wrote=True)
        meeting = self._threads.read(at, threads, interval)
        return None if meeting is None else Meeting(*meeting, blocks=False, wrote=True)

    def write(self, at: Array, threads: Array, block: int, interval: int) -> Meeting | None:
        """Note that `threads` write the elements `at`; return where one meets another, if any."""
        if self._blocks is not None:
            found = self._blocks.write(at, np.broadcast_to(np.int32(block), at.shape), _LAUNCH)
            if found is not None:
                return Meeting(*found[:2], blocks=True, wrote=found[2])
        found = self._threads.write(at, threads, interval)
        return None if found is None else Meeting(*found[:2], blocks=False, wrote=found[2])


class _Touched:
    """The last writer and the reader of each element, and in which era they were there."""

    def __init__(self, size: int) -> None:
        # Zeros cost nothing until they are touched; eras are counted from 1.
        self._writer, self._reader = np.zeros(size, np.int32), np.zeros(size, np.int32)
        self._written, self._read = np.zeros(size, np.int32), np.zeros(size, np.int32)

    def read(self, at: Array, who: Array, era: int) -> tuple[int, int] | None:
        """Note readers; return the first place with another writer, and that one."""
        met = (self._written[at] == era) & (self._writer[at] != who)
        if met.any():
            place = int(met.argmax())
            return place, int(self._writer[at[place]])
        before = np.where(self._read[at] == era, self._reader[at], who)
        self._reader[at] = who
        self._read[at] = era
        several = (self._reader[at] != who) | (before != who)
        self._reader[at[several]] = MANY
        return None

    def write(self, at: Array, who: Array, era: int) -> tuple[int, int, bool] | None:
        """Note writers; return the first place with another one, that one, and if it wrote."""
        for eras, others in ((self._written, self._writer), (self._read, self._reader)):
            met = (eras[at] == era) & (others[at] != who)
            if met.any():
                place = int(met.argmax())
                return place, int(others[at[place]]), others is self._writer
        self._writer[at] = who
        self._written[at] = era
        met = self._writer[at] != who
        if met.any():
            place = int(met.argmax())
            return place, int(self._writer[at[place]]), True
        return None
