"""The conformance cases as pytest tests, for a target in any package.

    from lamina.testing.conformance import conformance_tests

    test_conformance = conformance_tests("mytarget")

Passes are tested by `pass_tests`. With `pytest_terminal_summary` imported into a `conftest.py`,
pytest says how many checks ran.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from lamina.errors import TargetUnavailable
from lamina.testing.case import Case
from lamina.testing.report import Report, passed
from lamina.testing.stages import judge_pass
from lamina.testing.suites import cases
from lamina.testing.verdict import judge

if TYPE_CHECKING:
    from lamina.targets.base import Target

RAN: dict[str, Report] = defaultdict(Report)
"""What ran in this process, by target or pass."""


def conformance_tests(target: str | Target) -> Callable[[Case], None]:
    """Return a test of every case on a target, by its name, spec or value.

    Where the target's code cannot run on this machine, it is compiled all the same, and the test
    skipped.
    """

    @pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
    def test_conformance(case: Case) -> None:
        check_target(target, case)

    return test_conformance


def pass_tests(name: str) -> Callable[[Case], None]:
    """Return a test of every case on a registered pass."""

    @pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
    def test_pass(case: Case) -> None:
        check_pass(name, case)

    return test_pass


def check_target(target: str | Target, case: Case) -> None:
    """Judge a case inside a test, and count what ran."""
    try:
        outcome = judge(target, case)
    except TargetUnavailable as why:
        pytest.skip(str(why))
    RAN[str(target)].add(outcome)
    passed(outcome)


def check_pass(name: str, case: Case) -> None:
    """Judge a pass on a case inside a test, and count what ran."""
    outcome = judge_pass(name, case)
    RAN[name].add(outcome)
    passed(outcome)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many checks ran of each target and pass."""
    if RAN:
        terminalreporter.section("conformance")
    for name, report in RAN.items():
        terminalreporter.write_line(f"{name}: {report.summary}")
