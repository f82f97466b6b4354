"""Run cases on a target and judge every check: passed, failed or refused."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from lamina.compiler import compile
from lamina.dialects.dims import Dim
from lamina.errors import InputError, LaminaError, TargetUnavailable
from lamina.targets.base import NUMPY, Array, Executable, Signature
from lamina.targets.reference.executable import ReferenceExecutable
from lamina.testing.case import Case
from lamina.testing.comparison import difference
from lamina.testing.ragged import PAGES, work_list
from lamina.testing.sheet import Arrays, Check, Sheet

if TYPE_CHECKING:
    from lamina.targets.base import Target


@dataclass
class Verdict:
    """What became of one check: why it failed or was refused, and how many calls were compared."""

    case: str
    check: Check
    failed: str | None = None
    refused: str | None = None
    compared: int = 0

    @property
    def name(self) -> str:
        """The case and the check."""
        return f"{self.case}/{self.check.name}"

    @property
    def passed(self) -> bool:
        """Whether nothing was wrong."""
        return self.failed is None and self.refused is None

    def fail(self, why: str) -> None:
        """Say why the check failed; the first reason stays."""
        self.failed = self.failed or why


@dataclass
class Outcome:
    """The verdicts of a case, and what was warned of while it was compiled."""

    verdicts: list[Verdict] = field(default_factory=list[Verdict])
    warned: list[str] = field(default_factory=list[str])


def judge(target: str | Target, case: Case) -> Outcome:
    """Compile a case once and compare every output at every size with the reference.

    Where the whole case cannot be compiled, each check is compiled alone. Raises
    `TargetUnavailable` where the target's code cannot run on this machine.
    """
    sheet = case.sheet()
    outcome = Outcome([Verdict(case.name, check) for check in sheet.checks])
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            executable = compile(sheet.module, target, weights=sheet.weights)
    except TargetUnavailable:
        raise
    except Exception as error:
        if len(sheet.checks) > 1 and case.only is None:
            return _one_by_one(target, case, sheet)
        for verdict in outcome.verdicts:
            verdict.refused = _spelt(error)
        return outcome
    outcome.warned = [str(warning.message) for warning in caught]
    for size in case.sizes:
        judge_size(executable, case, sheet, size, outcome.verdicts)
    return outcome


def _one_by_one(target: str | Target, case: Case, sheet: Sheet) -> Outcome:
    outcome = Outcome()
    for check in sheet.checks:
        alone = judge(target, case.alone(check.name))
        outcome.verdicts += alone.verdicts
        outcome.warned += alone.warned
    return outcome


def judge_size(
    executable: Executable,
    case: Case,
    sheet: Sheet,
    size: int,
    verdicts: Sequence[Verdict],
    *,
    calls: int | None = None,
) -> None:
    """Compare the calls at one size, or the first few, with the reference; add to the verdicts."""
    inputs = case.calls(sheet, size)[:calls]
    if case.raises:
        _expect_error(executable, case, inputs, verdicts)
        return
    expected = expectation(replace(case, only=None), size)
    try:
        found = results(executable, inputs)
    except Exception as error:
        for verdict in verdicts:
            verdict.fail(f"at N = {size} {_spelt(error)}")
        return
    for n, actual in enumerate(found):
        where = f"N = {size}" + (f", call {n}" if len(inputs) > 1 else "")
        for verdict in verdicts:
            check = verdict.check
            wrong = difference(expected[n][check.name], actual[check.name], check)
            verdict.compared += 1
            if wrong is not None:
                verdict.fail(f"at {where} {wrong}")


def _spelt(error: Exception) -> str:
    return str(error) if isinstance(error, LaminaError) else f"{type(error).__name__}: {error}"


def _expect_error(
    executable: Executable, case: Case, calls: Sequence[Arrays], verdicts: Sequence[Verdict]
) -> None:
    for verdict in verdicts:
        verdict.compared += 1
        try:
            results(executable, calls)
        except InputError as error:
            if case.raises not in str(error):
                verdict.fail(f"the error does not name {case.raises}: {error}")
        else:
            verdict.fail("a call with a wrong input raised no InputError")


@cache
def expectation(case: Case, size: int) -> Sequence[Arrays]:
    """Return what the reference says of each call of a case at a size."""
    sheet = case.sheet()
    calls = case.calls(sheet, size)
    return results(ReferenceExecutable(sheet.module, sheet.weights), calls)


def results(executable: Executable, calls: Sequence[Arrays]) -> list[Arrays]:
    """Return the outputs of calls, one after another, that share page pools.

    Pools begin as NaN: a position that was not written is not to be read.
    """
    signature = executable.signature
    pools = {state.name: _pool(state.dtype, state.dims) for state in signature.states}
    return [executable(**_fitting(signature, inputs), **pools) for inputs in calls]


def _pool(dtype: str, dims: Sequence[Dim]) -> Array:
    shape = [dim.evaluate({"pages": PAGES}) for dim in dims]
    return np.full(shape, np.nan, NUMPY[dtype])


def _fitting(signature: Signature, inputs: Arrays) -> Arrays:
    """Return inputs with the work list that the code asks for."""
    block = signature.attributes.get("block", 1)
    names = {binding.role: binding.name for binding in signature.inputs if binding.role}
    if "work" not in names:
        return inputs
    return {**inputs, names["work"]: work_list(inputs[names["query_start"]], block)}
