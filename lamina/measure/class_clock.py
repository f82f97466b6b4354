"""How long the kernels of each class take in a run, from what its steps noted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median

import numpy as np
import numpy.typing as npt

from lamina.measure.subjects import Subject
from lamina.measure.workbench import Build
from lamina.passes.schedules.cost_model import PANEL
from lamina.passes.schedules.product_class import linear_of
from lamina.passes.schedules.scheduled import Scheduled
from lamina.targets.timeline import WAITING, TracedStep, trace

ONE_ROW = "decode"
"""The phase whose steps have one row."""


class ClassClock:
    """A build and a subject that runs it."""

    def __init__(self, build: Build, subject: Subject) -> None:
        """Run once, to warm up."""
        self._build, self._subject = build, subject
        subject.run()

    def run(self) -> dict[str, float]:
        """Run once and return the median ns of a call of each class.

        A call lasts from its first program's beginning to the end of its last, over all workers.
        """
        spent: defaultdict[str, list[int]] = defaultdict(list)
        for phase, step in self._steps():
            for call, nanoseconds in enumerate(_spans(step).tolist()):
                found = self._scheduled(step, call, phase) if nanoseconds else None
                if found is not None:
                    spent[found.key].append(nanoseconds)
        return {key: float(median(calls)) for key, calls in spent.items()}

    def blocks(self) -> dict[str, int]:
        """Run once and return the most tiles of rows that a call of each class has."""
        most: defaultdict[str, int] = defaultdict(int)
        for phase, step in self._steps():
            for call, programs in enumerate(_programs(step).tolist()):
                found = self._scheduled(step, call, phase) if programs else None
                if found is not None:
                    most[found.key] = max(most[found.key], _row_tiles(found, programs))
        return dict(most)

    def _steps(self) -> Iterator[tuple[str, TracedStep]]:
        with trace(self._build.executable) as timeline:
            self._subject.run()
        parts: Sequence[Sequence[TracedStep]] = self._subject.split(timeline.steps)
        for phase, steps in zip(self._subject.phases, parts, strict=True):
            for step in steps:
                yield phase.name, step

    def _scheduled(self, step: TracedStep, call: int, phase: str) -> Scheduled | None:
        """Return what a call is of; a kernel may serve few rows and any, by turns."""
        known: Mapping[tuple[str, bool], Scheduled] = self._build.scheduled
        name, few = step.calls[call].kernel, phase == ONE_ROW
        return known.get((name, few), known.get((name, not few)))


def _spans(step: TracedStep) -> npt.NDArray[np.int64]:
    """Return the ns of each call of the plan, 0 for one that was not made."""
    events = step.events[step.events[:, 1] != WAITING]
    count = len(step.calls)
    begin = np.full(count, np.iinfo(np.int64).max)
    end = np.zeros(count, np.int64)
    np.minimum.at(begin, events[:, 1], events[:, 3])
    np.maximum.at(end, events[:, 1], events[:, 4])
    return np.where(end > 0, end - begin, 0)


def _programs(step: TracedStep) -> npt.NDArray[np.int64]:
    """Return how many programs of each call of the plan ran."""
    events = step.events[step.events[:, 1] != WAITING]
    found = np.zeros(len(step.calls), np.int64)
    np.add.at(found, events[:, 1], events[:, 2])
    return found


def _row_tiles(scheduled: Scheduled, programs: int) -> int:
    """Return the tiles of rows among a call's programs; of a product of two tensors, all."""
    if scheduled.few or scheduled.group.anchor.data != "linear":
        return programs
    panels = -(-linear_of(scheduled.group, few=False).columns // PANEL)
    return programs // max(1, panels * PANEL // scheduled.numbers["n"])
