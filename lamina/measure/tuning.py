"""Find faster schedules for a model's kernels by measuring those beside the chosen ones.

Kernels are independent of each other, so a round compiles the model with one candidate of every
class at once, and measures it in turns with the model as it is chosen by default. In a stage every
class goes along one axis of its schedule; the winners are measured once more, all together, and
are then confirmed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from fnmatch import fnmatch
from statistics import median
from time import monotonic
from typing import Final

from lamina.errors import InputError, UnsupportedError
from lamina.measure.class_clock import ClassClock
from lamina.measure.subjects import Subject
from lamina.measure.workbench import Schedules, Workbench
from lamina.passes.schedules.database import Database, Measured, Numbers, versions
from lamina.passes.schedules.neighbours import AXES, neighbours
from lamina.passes.schedules.scheduled import Scheduled
from lamina.progress import report
from lamina.targets.base import Executable
from lamina.targets.timeline import check_traced

GAIN: Final = 0.03
"""The part of the default's time that a winner has to save."""

_ROW_TILES: Final = 2
_WORK: Final = "rounds"

Keep = Callable[[Database, Iterable[str]], None]
"""Keeps what was confirmed, and forgets the classes of the second."""


@dataclass(frozen=True)
class Finding:
    """What is known of a class: its kernels, its default schedule and, if any is faster, another.

    Times are in ns a call, None before they are measured. `skipped` says why nothing is tried.
    """

    key: str
    kernels: tuple[str, ...]
    default: Numbers
    winner: Numbers | None = None
    default_nanoseconds: float | None = None
    nanoseconds: float | None = None
    skipped: str = ""

    @property
    def ratio(self) -> float:
        """The best schedule's time as a part of the default's."""
        if self.winner is None or self.nanoseconds is None or self.default_nanoseconds is None:
            return 1.0
        return self.nanoseconds / self.default_nanoseconds

    @property
    def best(self) -> Numbers:
        """The fastest schedule so far."""
        return self.default if self.winner is None else self.winner


class Tuning:
    """A search, and what it found so far."""

    def __init__(self, bench: Workbench, pattern: str = "*") -> None:
        """Find the classes whose text, or a kernel's name of them, fits `pattern`.

        `InputError` if there is none, `UnsupportedError` for a target that takes none that were
        measured.
        """
        if "tuned" not in {each.name for each in fields(bench.target)}:
            raise UnsupportedError(
                f"{bench.target.name} takes its schedules from its cost model alone: only those of "
                "cpu are found by measuring"
            )
        self._bench = bench
        self._groups: defaultdict[str, list[Scheduled]] = defaultdict(list)
        for each in bench.scheduled():
            self._groups[each.key].append(each)
        self.findings: dict[str, Finding] = {}
        for key, groups in self._groups.items():
            names = tuple(dict.fromkeys(each.name for each in groups))
            if any(fnmatch(name, pattern) for name in (key, *names)):
                self.findings[key] = Finding(key, names, groups[0].numbers)
        if not self._groups:
            raise InputError("no kernel of this model has a schedule: there is nothing to tune")
        if not self.findings:
            raise InputError(f"no kernel of this model that has a schedule is called {pattern!r}")
        self._axes = {key: self._axes_of(key) for key in self.findings}
        self.rounds = 0
        self.complete = False

    def candidates(self, key: str, axis: str) -> list[Numbers]:
        """Return what is to be tried for a class along an axis: what all its groups can be."""
        best, groups = self.findings[key].best, self._groups[key]
        lists = [neighbours(each, best, axis) for each in groups]
        return [each for each in lists[0] if all(each in others for others in lists)]

    def of_stage(self, key: str, number: int) -> list[Numbers]:
        """Return what is to be tried for a class in a stage: along the next axis that it has."""
        axes = self._axes[key]
        return self.candidates(key, axes[number]) if number < len(axes) else []

    def _axes_of(self, key: str) -> list[str]:
        return [axis for axis in AXES if self.candidates(key, axis)]

    def has_rows(self, key: str) -> bool:
        """Return whether a class has tiles of several rows of packed products."""
        each = self._groups[key][0]
        return not each.few and each.group.anchor.data == "linear"

    def run(
        self,
        subject: Callable[[Executable], Subject],
        keep: Keep,
        *,
        repeat: int = 5,
        seconds: float | None = None,
    ) -> None:
        """Search all axes, at least a round and for about `seconds`, and keep what is confirmed.

        `subject` makes what is run of a model's code. `UnsupportedError` for a target that keeps
        no timeline.
        """
        search = _Search(self, self._bench, subject, repeat, seconds)
        search.skip_what_does_not_run()
        for number in range(len(AXES)):
            if confirmed := search.stage(number):
                keep({key: _measured(self.findings[key]) for key in confirmed}, ())
        self.complete = not search.cut_short
        if self.complete:
            keep({}, [each.key for each in self._open() if each.winner is None])

    def _open(self) -> list[Finding]:
        return [each for each in self.findings.values() if not each.skipped]


class _Search:
    """The rounds of a search."""

    def __init__(
        self,
        tuning: Tuning,
        bench: Workbench,
        subject: Callable[[Executable], Subject],
        repeat: int,
        seconds: float | None,
    ) -> None:
        self._tuning, self._bench, self._subject, self._repeat = tuning, bench, subject, repeat
        self._end = None if seconds is None else monotonic() + seconds
        self.cut_short = False
        build = bench.build()
        check_traced(build.executable)
        self._default = ClassClock(build, subject(build.executable))
        self._total = sum(map(self._length, range(len(AXES))))

    def skip_what_does_not_run(self) -> None:
        """Leave out classes that the subject says little of."""
        blocks = self._default.blocks()
        for key, finding in self._tuning.findings.items():
            ran = blocks.get(key, 0)
            if not ran:
                self._tuning.findings[key] = replace(finding, skipped="does not run")
            elif self._tuning.has_rows(key) and ran < _ROW_TILES:
                self._tuning.findings[key] = replace(finding, skipped="too few rows run")

    def stage(self, number: int) -> list[str]:
        """Try the candidates of a stage, and return the classes in which one was confirmed."""
        lists = {key: self._tuning.of_stage(key, number) for key in self._open}
        ratios: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)
        for turn in range(max(map(len, lists.values()), default=0)):
            if self._is_over():
                break
            tried = {key: each[turn] for key, each in lists.items() if turn < len(each)}
            for key, (default, trial) in self._round(tried, self._repeat).items():
                if key in tried:
                    ratios[key].append((trial / default, turn))
        winners: dict[str, Numbers] = {}
        for key, found in ratios.items():
            ratio, turn = min(found)
            if ratio <= min(1.0 - GAIN, self._tuning.findings[key].ratio):
                winners[key] = lists[key][turn]
        return self._confirmed(winners) if winners else []

    def _confirmed(self, winners: Schedules) -> list[str]:
        """Measure winners against the default once more, and return those that are faster."""
        confirmed: list[str] = []
        for key, (default, trial) in self._round(winners, 2 * self._repeat).items():
            finding = self._tuning.findings[key]
            if key in winners and trial / default <= min(1.0 - GAIN, finding.ratio):
                confirmed.append(key)
                self._tuning.findings[key] = replace(
                    finding,
                    winner=winners[key],
                    default_nanoseconds=default,
                    nanoseconds=trial,
                )
        return confirmed

    def _round(self, tried: Schedules, repeat: int) -> dict[str, tuple[float, float]]:
        """Measure these schedules, and the best so far of all other classes, beside the default.

        Returns the medians of the default and of these, ns a call.
        """
        best = {key: found.winner for key, found in self._tuning.findings.items() if found.winner}
        build = self._bench.build({**best, **tried})
        clock = ClassClock(build, self._subject(build.executable))
        runs = [(self._default.run(), clock.run()) for _ in range(repeat)]
        self._tuning.rounds += 1
        report(_WORK, self._tuning.rounds, max(self._total, self._tuning.rounds))
        return {
            key: (median(a[key] for a, _ in runs), median(b[key] for _, b in runs))
            for key in self._open
        }

    @property
    def _open(self) -> list[str]:
        return [key for key, each in self._tuning.findings.items() if not each.skipped]

    def _length(self, stage: int) -> int:
        """Return how many rounds a stage takes, about."""
        lengths = [len(self._tuning.of_stage(key, stage)) for key in self._open]
        return max(lengths, default=0) + 1

    def _is_over(self) -> bool:
        late = self._end is not None and monotonic() >= self._end and self._tuning.rounds > 0
        self.cut_short = self.cut_short or late
        return late


def _measured(finding: Finding) -> Measured:
    assert finding.nanoseconds is not None
    assert finding.default_nanoseconds is not None
    return Measured(
        schedule=finding.best,
        nanoseconds=finding.nanoseconds,
        default=finding.default,
        default_nanoseconds=finding.default_nanoseconds,
        versions=versions(),
    )
