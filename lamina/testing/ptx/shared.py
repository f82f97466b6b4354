"""The shared memory of blocks, and the detector of races on it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lamina.targets.reference.dtypes import Array
from lamina.testing.ptx.clocks import Clocks

_NOBODY = -1


@dataclass(frozen=True)
class Trouble:
    """What is wrong with an access: its kind, which of the accesses it is, and what happened."""

    kind: str
    at: int
    what: str


class Shared:
    """`size` bytes a block, and for each granule who last wrote and who read it since.

    Two accesses of different threads, one of them a write, race unless a barrier is between
    them. `valid` says which bytes belong to a variable. Granules are as large as the smallest
    access of the kernel, so that neighbours do not seem to be one place.
    """

    def __init__(
        self, blocks: int, valid: Array, granule: int, clocks: Clocks, poison: int
    ) -> None:
        self.stride = -(-max(len(valid), 1) // 128) * 128
        self.granule = granule
        self.bytes: Array = np.full(blocks * self.stride, poison, np.uint8)
        self.clocks = clocks
        self._valid = np.zeros(self.stride, np.bool_)
        self._valid[: len(valid)] = valid
        self._size = len(valid)
        cells = len(self.bytes) // granule
        self._writer: Array = np.full(cells, _NOBODY, np.int32)
        self._written: Array = np.zeros(cells, np.int64)
        self._atomic: Array = np.zeros(cells, np.bool_)
        self._low: Array = np.full(cells, _NOBODY, np.int32)
        self._high: Array = np.full(cells, _NOBODY, np.int32)
        self._read: Array = np.zeros(cells, np.int64)
        self._asynchronous: Array = np.zeros(cells, np.bool_)
        self._pending: Array = np.zeros(cells, np.int16)

    def outside(self, addresses: Array, size: int) -> int | None:
        """Return the position of the first access that leaves the block's variables."""
        wrong = (addresses < 0) | (addresses + size > self._size)
        if not wrong.any():
            wrong = ~(self._valid[addresses] & self._valid[addresses + (size - 1)])
        return int(wrong.argmax()) if wrong.any() else None

    def rows(self, unit: int, count: int) -> Array:
        """Return all bytes as rows of `count` integers of `unit` bytes."""
        return self.bytes.view(np.dtype(f"u{unit}")).reshape(-1, count)

    def read(self, who: Array, places: Array, size: int) -> Trouble | None:
        """Note that threads, in ascending order, read `size` bytes at places of `bytes`."""
        cells, threads, per = self._cells(who, places, size)
        trouble = self._waiting(cells, per) or self._after_write(cells, threads, per, False)
        if trouble:
            return trouble
        now = self.clocks.tick()
        low, high, time = self._low[cells], self._high[cells], self._read[cells]
        gone = time <= self.clocks.floor
        if self.clocks.fine and not gone.all():
            knows = self.clocks.knows
            gone |= knows(threads, low, time) & knows(threads, high, time)
        self._high[cells] = np.where(gone, threads, np.maximum(high, threads))
        self._low[cells[::-1]] = np.where(gone, threads, np.minimum(low, threads))[::-1]
        self._read[cells] = now
        return None

    def write(
        self, who: Array, places: Array, size: int, *, atomic: bool = False
    ) -> Trouble | None:
        """Note that threads write `size` bytes at places of `bytes`."""
        cells, threads, per = self._cells(who, places, size)
        trouble = (
            self._waiting(cells, per)
            or self._after_write(cells, threads, per, atomic)
            or self._after_read(cells, threads, per)
        )
        if trouble:
            return trouble
        self._mark(cells, threads)
        self._atomic[cells] = atomic
        return None

    def known(self, who: Array, places: Array, size: int) -> Trouble | None:
        """Say if threads do not know yet what was last written to places; note nothing."""
        cells, threads, per = self._cells(who, places, size)
        return self._after_write(cells, threads, per, False)

    def asynchronous(self, places: Array, size: int) -> None:
        """Note that an asynchronous copy wrote here, which needs no fence."""
        self._asynchronous[self._cells(places, places, size)[0]] = True

    def unfenced(self, places: Array, size: int, fenced: Array, readers: Array) -> Trouble | None:
        """Say what an asynchronous access would miss: writes of threads with no fence since.

        `fenced` is when each thread last made its accesses visible, `readers` when those did
        that access `size` bytes at places now.
        """
        cells, until, per = self._cells(readers, places, size)
        writer = self._writer[cells]
        time = self._written[cells]
        seen = (time <= until) | (time <= fenced[writer]) | (writer == _NOBODY)
        missed = ~(seen | self._asynchronous[cells])
        if not missed.any():
            return None
        what = "written with no fence.proxy.async before this asynchronous access"
        return Trouble("race", int(missed.argmax()) // per, what)

    def begin_copy(self, who: Array, places: Array, size: int) -> Trouble | None:
        """Note that a copy will write at some time from now on."""
        trouble = self.write(who, places, size)
        if trouble is None:
            self._pending[self._cells(who, places, size)[0]] += 1
        return trouble

    def end_copy(self, who: Array, places: Array, size: int) -> Trouble | None:
        """Note that a copy has written."""
        cells, threads, per = self._cells(who, places, size)
        self._pending[cells] -= 1
        trouble = self._after_write(cells, threads, per, False) or self._after_read(
            cells, threads, per
        )
        if trouble is None:
            self._mark(cells, threads)
        return trouble

    def _mark(self, cells: Array, threads: Array) -> None:
        self._writer[cells] = threads
        self._written[cells] = self.clocks.tick()
        self._read[cells] = 0
        self._atomic[cells] = False
        self._asynchronous[cells] = False

    def _cells(self, who: Array, places: Array, size: int) -> tuple[Array, Array, int]:
        per = max(size // self.granule, 1)
        first = places // self.granule
        if per == 1:
            return first, who, 1
        return (first[:, None] + np.arange(per)).ravel(), np.repeat(who, per), per

    def _waiting(self, cells: Array, per: int) -> Trouble | None:
        pending = self._pending[cells]
        if not pending.any():
            return None
        at = int(pending.argmax()) // per
        what = "an asynchronous copy that nothing has waited for still has to write here"
        return Trouble("pending", at, what)

    def _after_write(self, cells: Array, threads: Array, per: int, atomic: bool) -> Trouble | None:
        time = self._written[cells]
        recent = np.flatnonzero(time > self.clocks.floor)
        if not len(recent):
            return None
        writer = self._writer[cells[recent]]
        race = ~self.clocks.knows(threads[recent], writer, time[recent])
        if atomic:
            race &= ~self._atomic[cells[recent]]
        if not race.any():
            return None
        at = int(race.argmax())
        what = f"thread {self._name(writer[at])} wrote here, with no barrier since"
        return Trouble("race", int(recent[at]) // per, what)

    def _after_read(self, cells: Array, threads: Array, per: int) -> Trouble | None:
        time = self._read[cells]
        recent = np.flatnonzero(time > self.clocks.floor)
        if not len(recent):
            return None
        who, time = threads[recent], time[recent]
        for readers in (self._low, self._high):
            reader = readers[cells[recent]]
            race = ~self.clocks.knows(who, reader, time)
            if race.any():
                at = int(race.argmax())
                what = f"thread {self._name(reader[at])} read here, with no barrier since"
                return Trouble("race", int(recent[at]) // per, what)
        return None

    def _name(self, thread: int) -> str:
        return f"{int(thread) % self.clocks.threads_per_block} of the block"
