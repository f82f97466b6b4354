"""What a device and the host did in a step, and when, as events of a timeline."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from time import monotonic_ns
from typing import Final

import numpy as np
import numpy.typing as npt

from lamina.targets.plans.dispatches import CopyDispatch, Dispatch, HostTask, Task, values_of
from lamina.targets.plans.plan_tables import HOST, Plan
from lamina.targets.plans.traced_calls import traced_calls
from lamina.targets.timeline import Timeline, TracedCall, TracedStep

Times = npt.NDArray[np.int64]
"""[n, 2]: when each of n dispatches began and was over, in ns of a clock of the device's."""

PLACES: Final = ("device", "host")
_DEVICE, _HOST = range(2)


@dataclass
class Recorder:
    """Where the sessions of an executable note their steps, if they do."""

    timeline: Timeline | None = None


class StepNotes:
    """The events of one step, by the host's steady clock."""

    def __init__(self, plan: Plan, symbols: Mapping[str, int]) -> None:
        """Note nothing yet of what `plan` does where its symbols have these numbers."""
        self._plan = plan
        self._calls = traced_calls(plan, values_of(plan, symbols))
        self._events: list[tuple[int, ...]] = []

    def dispatched(self, tasks: Sequence[Dispatch], times: Times) -> None:
        """Note dispatches of which the last one is just over."""
        if not len(times):
            return
        shift = monotonic_ns() - int(times.max())
        for task, (begin, end) in zip(tasks, (times + shift).tolist(), strict=True):
            self._events.append((_DEVICE, task.call, prod(task.grid), begin, end))

    @contextmanager
    def task(self, task: HostTask) -> Generator[None]:
        """Note what the host does in the block."""
        if not isinstance(task, CopyDispatch):
            name = self._plan.hosts[task.number].name
        else:
            name = "(copy to the host)" if task.target[0] == HOST else "(copy to the device)"
        with self._event(_HOST, TracedCall(name)):
            yield

    @contextmanager
    def whole(self, tasks: Sequence[Task]) -> Generator[None]:
        """Note the block as one event of the device's, for all dispatches among its tasks."""
        calls = [self._calls[task.call] for task in tasks if isinstance(task, Dispatch)]
        moved, floats, integers = (
            _sum(getattr(each, count) for each in calls)
            for count in ("bytes", "float_ops", "integer_ops")
        )
        with self._event(_DEVICE, TracedCall("(all kernels)", "", moved, floats, integers)):
            yield

    @contextmanager
    def _event(self, place: int, call: TracedCall) -> Generator[None]:
        begin = monotonic_ns()
        yield
        self._events.append((place, len(self._calls), 1, begin, monotonic_ns()))
        self._calls.append(call)

    def step(self) -> TracedStep:
        """Return what was noted."""
        events = np.array(self._events, np.int64).reshape(-1, 5)
        return TracedStep(self._calls, events, 0, PLACES)


def _sum(counts: Iterable[int | None]) -> int | None:
    """Return the sum of counts; None if one of them is not said."""
    known = list(counts)
    return None if None in known else sum(each for each in known if each is not None)
