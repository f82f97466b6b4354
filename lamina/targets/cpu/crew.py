"""How many workers walk the steps of one caller: fewer while other processes take their CPUs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from lamina.targets.cpu.cpu_time import CpuTime

_LOOK_S: Final = 0.25
"""Between looks at how many CPUs the process may use: reading quotas takes a tenth of a ms."""

_WINDOW_S: Final = 0.02
"""Of steps, between looks at what the workers had of their CPUs: a few slices of a scheduler."""

_SETTLING_S: Final = 0.05
"""After a pause, before the workers are judged: a thread that wakes may find itself on the CPU of
the one that woke it, until the system's scheduler has moved it."""

_DELAYED: Final = 0.2
"""The part of the time from which on a worker's wait for a CPU is the doing of others."""

_LOST: Final = 0.8
"""How much of one worker's time may be lost before the others are better off without it."""

_FIRST_REST_S, _LONGEST_REST_S = 0.1, 1.6

Read = Callable[[int], Sequence[CpuTime] | None]
"""Returns what the caller and the other workers, of so many in all, had of the CPUs so far."""


class Crew:
    """The number of workers, in the light of how the last steps went.

    A launch is over when its last program is. Where a worker has to share its CPU, the others wait
    for it whenever it is stopped in a program, and may be faster alone: so it rests for a while,
    longer each time that its return shows nothing better. Results do not depend on it. All times
    are in seconds of one steady clock.
    """

    def __init__(self, allowed: Callable[[], int], now: float) -> None:
        """Have all workers that are `allowed`, which is asked again from time to time."""
        self._allowed = allowed
        self._most = self._workers = allowed()
        self._look_at = now + _LOOK_S
        self._rest, self._rested_at = _FIRST_REST_S, now
        self._before: Sequence[CpuTime] | None = None
        self._seconds = 0.0
        self._ended = self._judged_from = now

    def muster(self, now: float, *, everyone: bool = False) -> int:
        """Return how many workers a step that begins `now` is to have: `everyone`, or who is up."""
        if now >= self._look_at:
            self._look_at = now + _LOOK_S
            most = self._allowed()
            if most != self._most:
                self._most = self._workers = most
                self._before, self._rest = None, _FIRST_REST_S
        if self._workers < self._most and now >= self._rested_at:
            self._workers += 1
            self._before = None
        return self._most if everyone else self._workers

    def ran(self, began: float, ended: float, read: Read) -> None:
        """Note that a step took from `began` to `ended`, and judge the last ones if it is time."""
        if self._most == 1:
            return
        if began - self._ended > _WINDOW_S:
            # What the threads did in a pause says nothing of steps.
            self._before, self._judged_from = None, began + _SETTLING_S
        self._ended = ended
        if self._workers == 1 or began < self._judged_from:
            return
        self._seconds += ended - began
        if self._before is not None and self._seconds < _WINDOW_S:
            return
        before, after = self._before, read(self._workers) or ()
        if before is not None:
            self._judge(crowded(before, after, self._seconds), ended)
        self._before, self._seconds = after, 0.0

    def _judge(self, bad: bool, now: float) -> None:
        if bad:
            self._workers -= 1
            self._rested_at = now + self._rest
            self._rest = min(2 * self._rest, _LONGEST_REST_S)
        elif self._workers == self._most:
            self._rest = _FIRST_REST_S


def crowded(before: Sequence[CpuTime], after: Sequence[CpuTime], seconds: float) -> bool:
    """Tell whether one worker fewer would have done as much in the `seconds` between two readings.

    That is so if somebody else had a worker's CPU, and the workers together lost most of what one
    can do: those that sleep because a launch has little to share are not held back by others.
    """
    if not before or [each.thread for each in before] != [each.thread for each in after]:
        return False
    pairs = list(zip(before, after, strict=True))
    delayed = max(late.delayed - early.delayed for early, late in pairs)
    worked = sum(late.running - early.running for early, late in pairs)
    lost = len(pairs) * seconds * 1e9 - worked
    return delayed > _DELAYED * seconds * 1e9 and lost > _LOST * seconds * 1e9
