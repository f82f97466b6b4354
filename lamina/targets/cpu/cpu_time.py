"""What the system's scheduler gave each thread of this process, where it says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class CpuTime:
    """Nanoseconds since a thread, by its id in the system, began: on a CPU, and waiting for one."""

    thread: int
    running: int
    delayed: int


def cpu_times(threads: Sequence[int]) -> list[CpuTime] | None:
    """Return those of threads of this process, by their ids; None if the system tells nothing.

    Source: `schedstat` in Linux's Documentation/scheduler/sched-stats.rst.
    """
    found: list[CpuTime] = []
    for thread in threads:
        try:
            with open(f"/proc/self/task/{thread}/schedstat", "rb", buffering=0) as file:
                running, delayed, *_ = file.read(100).split()
        except (OSError, ValueError):
            return None
        found.append(CpuTime(thread, int(running), int(delayed)))
    return found
