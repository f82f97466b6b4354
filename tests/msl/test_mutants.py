"""What is broken in a kernel is found: by watching accesses, or by the orders of threads alone."""

from collections.abc import Callable
from pathlib import Path

import pytest
from launches import BY_NAME
from mutants import ATOMIC, Mutant, mutants_of, text_of

from lamina.testing import msl

TEXT = (Path(__file__).parent / "kernels.metal").read_text(encoding="utf-8")
MUTANTS = mutants_of(TEXT)
REMOVED = [mutant for mutant in MUTANTS if mutant.broken.endswith("removed")]
SAYS = {
    "removed": ("no barrier between", "writes meanwhile"),
    "weakened": ("no barrier between",),
}


@pytest.fixture(scope="module")
def broken(needs: Callable[..., str]) -> msl.Library:
    needs("g++", package="g++")
    return msl.compile(text_of(TEXT, MUTANTS))


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_mutant_is_caught(broken: msl.Library, mutant: Mutant) -> None:
    case = BY_NAME[mutant.kernel]
    faults = [
        case.fault(broken, mutant.name, schedule, True) for schedule in ("forward", "reverse")
    ]
    kind = mutant.broken.rsplit(" ", 1)[-1]
    says = ("",) if mutant.kernel in ATOMIC else SAYS.get(kind, ("",))
    assert any(fault and any(each in fault for each in says) for fault in faults), faults


@pytest.mark.parametrize("mutant", REMOVED, ids=str)
def test_the_order_of_threads_alone_shows_that_a_barrier_is_missing(
    broken: msl.Library, mutant: Mutant
) -> None:
    case = BY_NAME[mutant.kernel]
    assert any(case.fault(broken, mutant.name, order, False) for order in msl.SCHEDULES)


def test_there_are_mutants_of_each_kind() -> None:
    kinds = {"removed", "weakened", "dropped", "swapped"}
    assert len(MUTANTS) >= 25
    assert all(any(kind in each.broken for each in MUTANTS) for kind in kinds)
