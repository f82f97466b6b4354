"""Barriers in shared memory that count arrivals of threads and bytes of copies (`mbarrier`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from lamina.targets.reference.dtypes import Array
from lamina.testing.ptx.lanes import Lanes

if TYPE_CHECKING:
    from lamina.testing.ptx.threads import Threads

Land = Callable[[], Array]
"""Let a copy arrive; return what is known then of each warp of the block."""


@dataclass
class MBarrier:
    """Arrivals and bytes that a phase still waits for, and what those who arrived know."""

    expected: int
    pending: int
    missing: int = 0
    phase: int = 0
    arrived: list[Array] = field(default_factory=list[Array])
    known: Array | None = None
    copies: list[tuple[int, Land]] = field(default_factory=list[tuple[int, Land]])

    def settle(self) -> bool:
        """Begin the next phase if this one waits for nothing; tell whether it did."""
        if self.pending or self.missing:
            return False
        self.known = np.max(self.arrived, axis=0) if self.arrived else None
        self.arrived = []
        self.pending = self.expected
        self.phase += 1
        return True


@dataclass(frozen=True)
class Sleeper:
    """Threads of one block that wait for a phase of a barrier to end."""

    place: int
    parity: int
    lanes: Lanes
    pc: int


class MBarriers:
    """The barriers of some blocks, by where they lie in shared memory, and who sleeps at them.

    Copies arrive when somebody waits for them and would otherwise wait for ever, or not before.
    """

    def __init__(self) -> None:
        self._at: dict[int, MBarrier] = {}
        self._sleepers: list[Sleeper] = []

    def init(self, place: int, count: int) -> None:
        """Make a barrier that `count` arrivals complete."""
        self._at[place] = MBarrier(count, count)

    def forget(self, place: int) -> None:
        """Let a barrier be ordinary memory again."""
        self._at.pop(place, None)

    def find(self, place: int) -> MBarrier | None:
        """Return the barrier at a place, if there is one."""
        return self._at.get(place)

    def sleep(self, sleeper: Sleeper) -> None:
        """Let threads wait until a phase ends."""
        self._sleepers.append(sleeper)

    def arrive(self, t: Threads, place: int, count: int, known: Array | None) -> None:
        """Count arrivals."""
        barrier = self._at[place]
        barrier.pending -= count
        if known is not None:
            barrier.arrived.append(known)
        if barrier.settle():
            self.wake(t)

    def land(self, place: int) -> bool:
        """Let all copies of a barrier arrive; tell whether a phase ended."""
        barrier = self._at[place]
        copies, barrier.copies = barrier.copies, []
        for size, land in copies:
            barrier.arrived.append(land())
            barrier.missing -= size
        return bool(copies) and barrier.settle()

    def wake(self, t: Threads) -> None:
        """Let those go on whose phase has ended; they ask again."""
        left: list[Sleeper] = []
        for sleeper in self._sleepers:
            barrier = self._at.get(sleeper.place)
            if barrier is not None and barrier.phase & 1 == sleeper.parity:
                left.append(sleeper)
            else:
                t.go_on(sleeper.pc, sleeper.lanes)
        self._sleepers = left

    def idle(self, t: Threads) -> bool:
        """Nothing runs: let copies arrive that somebody sleeps for. Tell whether that helped.

        Raises `KernelFault` if threads sleep for ever.
        """
        places = {sleeper.place for sleeper in self._sleepers} & self._at.keys()
        if any([self.land(place) for place in sorted(places)]):
            self.wake(t)
            return True
        if self._sleepers:
            sleeper = self._sleepers[0]
            line = t.program.lines[sleeper.pc]
            what = "the thread waits at an mbarrier for ever"
            barrier = self._at.get(sleeper.place)
            if barrier is not None:
                what += f": {barrier.pending} arrivals and {barrier.missing} bytes are missing"
            raise t.fault("barrier", what, int(sleeper.lanes.index[0]), line)
        return False
