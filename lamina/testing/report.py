"""The score of a target or a pass: what passed, failed and was refused, by operation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lamina.testing.case import Case
from lamina.testing.stages import judge_pass
from lamina.testing.suites import cases
from lamina.testing.verdict import Outcome, judge

if TYPE_CHECKING:
    from lamina.targets.base import Target


@dataclass
class Report:
    """How a target or a pass did. `failed` and `refused` say why, by the name of the check.

    `passed` has the names of the checks that passed, and `operations` for each operation how many
    checks there were of it and how many passed. `comparisons` counts calls times outputs. `warned`
    counts what was warned of: operations that run by their NumPy meaning, among others.
    """

    passed: list[str] = field(default_factory=list[str])
    failed: dict[str, str] = field(default_factory=dict[str, str])
    refused: dict[str, str] = field(default_factory=dict[str, str])
    operations: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    warned: Counter[str] = field(default_factory=Counter[str])
    cases: int = 0
    comparisons: int = 0

    def add(self, outcome: Outcome) -> None:
        """Count the outcome of one case."""
        self.cases += 1
        self.warned.update(outcome.warned)
        for verdict in outcome.verdicts:
            self.comparisons += verdict.compared
            ran, good = self.operations.get(verdict.check.op, (0, 0))
            self.operations[verdict.check.op] = (ran + 1, good + verdict.passed)
            if verdict.refused is not None:
                self.refused[verdict.name] = verdict.refused
            elif verdict.failed is not None:
                self.failed[verdict.name] = verdict.failed
            else:
                self.passed.append(verdict.name)

    @property
    def total(self) -> int:
        """How many checks ran."""
        return len(self.passed) + len(self.failed) + len(self.refused)

    @property
    def summary(self) -> str:
        """How many checks and cases ran, and what became of them, in one line."""
        return (
            f"{self.total} checks in {self.cases} cases, {self.comparisons} comparisons: "
            f"{len(self.passed)} passed, {len(self.failed)} failed, {len(self.refused)} refused, "
            f"{self.warned.total()} warnings"
        )

    def __str__(self) -> str:
        lines = [
            f"{op:24} {good:4} of {ran}" for op, (ran, good) in sorted(self.operations.items())
        ]
        lines += _listed("failed", self.failed)
        lines += _listed("refused", self.refused)
        lines += [f"warned {count} times: {text}" for text, count in sorted(self.warned.items())]
        return "\n".join([*lines, self.summary])


def _listed(what: str, found: Mapping[str, str]) -> list[str]:
    return [f"{what}: {name}: {why}" for name, why in found.items()]


def run(target: str | Target, chosen: Iterable[Case] | None = None) -> Report:
    """Judge a target, by its name, spec or value, on all cases or those chosen.

    Raises `TargetUnavailable` where the target's code cannot run on this machine.
    """
    report = Report()
    for case in cases() if chosen is None else chosen:
        report.add(judge(target, case))
    return report


def run_pass(name: str, chosen: Iterable[Case] | None = None) -> Report:
    """Judge a pass, by its name, on all cases or those chosen; only those it changes count."""
    report = Report()
    for case in cases() if chosen is None else chosen:
        outcome = judge_pass(name, case)
        if outcome.verdicts:
            report.add(outcome)
    return report


def check(target: str | Target, case: Case) -> Outcome:
    """Judge a target on one case; AssertionError names each check that failed or was refused."""
    return passed(judge(target, case))


def passed(outcome: Outcome) -> Outcome:
    """Return the outcome; AssertionError names each check that failed or was refused."""
    wrong = [verdict for verdict in outcome.verdicts if not verdict.passed]
    if wrong:
        reasons = (f"{v.name} ({v.check.op}): {v.refused or v.failed}" for v in wrong)
        raise AssertionError("\n".join(reasons))
    return outcome
