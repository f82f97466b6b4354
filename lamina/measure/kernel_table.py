"""What a timeline says of each kernel, beside the limits of the machine."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np

from lamina.measure.limits import Limits
from lamina.targets.timeline import WAITING, TracedCall, TracedStep

_NANO: Final = 1e-9


@dataclass(frozen=True)
class KernelRow:
    """One kernel, per step: calls, seconds (of all workers, by their number), part of the step.

    `rate` is in bytes or operations a second by the `limit` that it is nearest to, "reading",
    "f32" or "8-bit"; `of_limit` is the part of that which it reaches. All three are None where
    nothing says what it does, or nothing limits it.
    """

    kernel: str
    schedule: str
    calls: float
    seconds: float
    share: float
    limit: str | None = None
    rate: float | None = None
    of_limit: float | None = None


@dataclass(frozen=True)
class StepTable:
    """Where the time of a step goes: kernels, the slowest first, and the rest, in seconds.

    `waiting` is at barriers, `between` from a step's end to the next one's beginning, `other`
    what is noted nowhere, as host calls. `at_limit` is how long the arithmetic of all products
    would take at the machine's peaks. `lost` counts events that found no room.
    """

    steps: int
    seconds: float
    kernels: tuple[KernelRow, ...]
    waiting: float
    between: float
    other: float
    at_limit: float
    lost: int


def step_table(
    steps: Sequence[TracedStep], limits: Limits, workers: int, before: TracedStep | None = None
) -> StepTable:
    """Return the table of `steps`, at least one, that `workers` ran; `before` was just before."""
    tallies: dict[str, _Tally] = {}
    waiting = 0.0
    for step in steps:
        waiting += _count(step, tallies)
    count, share = len(steps), _NANO / workers / len(steps)
    inside = sum(step.seconds for step in steps) / count
    ends = [step for step in (before, *steps) if step is not None and len(step.events)]
    pauses = (
        int(after.events[:, 3].min()) - int(first.events[:, 4].max())
        for first, after in pairwise(ends)
    )
    between = sum(pauses) * _NANO / count
    rows = [tally.row(count, share, inside + between, limits) for tally in tallies.values()]
    rows.sort(key=lambda row: -row.seconds)
    other = inside - waiting * share - sum(row.seconds for row in rows)
    return StepTable(
        steps=count,
        seconds=inside + between,
        kernels=tuple(rows),
        waiting=waiting * share,
        between=between,
        other=max(0.0, other),
        at_limit=sum(tally.arithmetic(limits) for tally in tallies.values()) / count,
        lost=sum(step.lost for step in steps),
    )


@dataclass
class _Tally:
    """What all calls of one kernel came to; a count is None once one call does not say it."""

    call: TracedCall
    calls: int = 0
    nanoseconds: float = 0.0
    counts: list[int | None] = field(default_factory=lambda: [0, 0, 0])

    def take(self, call: TracedCall, nanoseconds: float) -> None:
        """Count one more call."""
        self.calls += 1
        self.nanoseconds += nanoseconds
        more = (call.bytes, call.float_ops, call.integer_ops)
        for n, (so_far, one) in enumerate(zip(self.counts, more, strict=True)):
            self.counts[n] = None if so_far is None or one is None else so_far + one

    def arithmetic(self, limits: Limits) -> float:
        """Return the seconds that the operations take at the peaks; 0 where nothing says."""
        peaks = (limits.float_ops, limits.integer_ops)
        pairs = zip(self.counts[1:], peaks, strict=True)
        return sum(count / peak for count, peak in pairs if count and peak)

    def row(self, steps: int, share: float, step: float, limits: Limits) -> KernelRow:
        """Return the row of the kernel."""
        seconds = self.nanoseconds * share
        limit, amount, least = self._nearest(limits)
        total = seconds * steps
        known = limit is not None and total > 0
        return KernelRow(
            kernel=self.call.kernel,
            schedule=self.call.schedule,
            calls=self.calls / steps,
            seconds=seconds,
            share=seconds / step if step else 0.0,
            limit=limit,
            rate=amount / total if known else None,
            of_limit=least / total if known else None,
        )

    def _nearest(self, limits: Limits) -> tuple[str | None, float, float]:
        """Return the limit that takes longest, how much it limits, and the seconds that takes."""
        moved, floats, integers = self.counts
        if moved is None or floats is None or integers is None:
            return None, 0.0, 0.0
        reading, arithmetic = moved / limits.read, self.arithmetic(limits)
        if arithmetic > reading:
            by_bytes = integers / (limits.integer_ops or np.inf)
            name = "8-bit" if by_bytes * 2 > arithmetic else "f32"
            return name, float(floats + integers), arithmetic
        return ("reading", float(moved), reading) if moved else (None, 0.0, 0.0)


def _count(step: TracedStep, tallies: dict[str, _Tally]) -> float:
    """Add a step to the tallies; return the nanoseconds that were spent waiting."""
    calls = step.events[:, 1]
    spent = (step.events[:, 4] - step.events[:, 3]).astype(np.float64)
    working = calls != WAITING
    totals = np.bincount(calls[working], weights=spent[working], minlength=len(step.calls))
    for number in np.unique(calls[working]):
        call = step.calls[int(number)]
        tally = tallies.setdefault(call.kernel, _Tally(call))
        tally.take(call, float(totals[number]))
    return float(spent[~working].sum())
