"""Who touched which element of a memory, and where two threads or two blocks meet in one."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from lamina.targets.reference.dtypes import Array

MANY = -1
"""In place of one that was there: several."""

_LAUNCH = 1
"""The era in which blocks meet: all of them may run at once."""


class Meeting(NamedTuple):
    """Where in a list of elements somebody met another one, and what that one `did` before."""

    position: int
    other: int
    blocks: bool
    did: str


class Races:
    """What has become of the elements of a memory: `blocks` says whether blocks share it."""

    def __init__(self, size: int, *, blocks: bool) -> None:
        self._threads = _Touched(size)
        self._blocks = _Touched(size) if blocks else None

    def read(self, at: Array, threads: Array, block: int, interval: int) -> Meeting | None:
        """Note that `threads` read the elements `at`; return where one meets a writer, if any.

        Threads meet within an `interval` between barriers, counted from 1 through all blocks.
        """
        return self._note(_Touched.read, at, threads, block, interval)

    def write(self, at: Array, threads: Array, block: int, interval: int) -> Meeting | None:
        """Note that `threads` write the elements `at`; return where one meets another, if any."""
        return self._note(_Touched.write, at, threads, block, interval)

    def change(self, at: Array, threads: Array, block: int, interval: int) -> Meeting | None:
        """Note that `threads` change elements as a whole; return where one meets another, if any.

        Those that change elements so take turns, and do not meet.
        """
        return self._note(_Touched.change, at, threads, block, interval)

    def _note(
        self, note: _Note, at: Array, threads: Array, block: int, interval: int
    ) -> Meeting | None:
        if self._blocks is not None:
            blocks = np.broadcast_to(np.int32(block), at.shape)
            met = note(self._blocks, at, blocks, _LAUNCH)
            if met is not None:
                place, other, did = met
                return Meeting(place, other, blocks=True, did=did)
        met = note(self._threads, at, threads, interval)
        return None if met is None else Meeting(met[0], met[1], blocks=False, did=met[2])


class _Last:
    """Who did something to each element last, in which era: one, or `MANY`."""

    def __init__(self, size: int, did: str) -> None:
        # Zeros cost nothing until they are touched; eras are counted from 1.
        self.did = did
        self._who, self._era = np.zeros(size, np.int32), np.zeros(size, np.int32)

    def met(self, at: Array, who: Array, era: int) -> _Met | None:
        """Return the first place where somebody else was in this era, and that one."""
        met = (self._era[at] == era) & (self._who[at] != who)
        if not met.any():
            return None
        place = int(met.argmax())
        return place, int(self._who[at[place]]), self.did

    def claim(self, at: Array, who: Array, era: int) -> None:
        """Note that they were there; of several in one element the last one."""
        self._who[at] = who
        self._era[at] = era

    def note(self, at: Array, who: Array, era: int) -> None:
        """Note that they were there, which several may have been."""
        before = np.where(self._era[at] == era, self._who[at], who)
        self.claim(at, who, era)
        several = (self._who[at] != who) | (before != who)
        self._who[at[several]] = MANY


class _Touched:
    """Who wrote, read and changed each element last."""

    def __init__(self, size: int) -> None:
        self._written, self._read = _Last(size, "wrote"), _Last(size, "read")
        self._changed: _Last | None = None
        self._size = size

    def read(self, at: Array, who: Array, era: int) -> _Met | None:
        """Note readers; return the first place with another writer, and that one."""
        found = self._written.met(at, who, era) or self._met_change(at, who, era)
        if found is None:
            self._read.note(at, who, era)
        return found

    def write(self, at: Array, who: Array, era: int) -> _Met | None:
        """Note writers; return the first place with another one, that one, and what it did."""
        found = self._written.met(at, who, era) or self._read.met(at, who, era)
        found = found or self._met_change(at, who, era)
        if found is None:
            self._written.claim(at, who, era)
            found = self._written.met(at, who, era)
        return found

    def change(self, at: Array, who: Array, era: int) -> _Met | None:
        """Note those that change elements as a whole; return the first that meets a plain one."""
        found = self._written.met(at, who, era) or self._read.met(at, who, era)
        if found is None:
            self._changed = self._changed or _Last(self._size, "changed")
            self._changed.note(at, who, era)
        return found

    def _met_change(self, at: Array, who: Array, era: int) -> _Met | None:
        return None if self._changed is None else self._changed.met(at, who, era)


_Met = tuple[int, int, str]
"""A place in a list of elements, who was there, and what that one did."""

_Note = Callable[[_Touched, Array, Array, int], _Met | None]
"""Notes an access."""
