"""Kernels do what Metal says, in whatever order their threads take turns."""

from collections.abc import Callable

import pytest
from launches import BY_NAME, CASES, Case

from lamina.testing.msl import SCHEDULES, Library, Schedule


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kernel)
def test_a_kernel_is_right_in_every_order(
    metal: Callable[[str], Library], case: Case, schedule: Schedule
) -> None:
    library = metal("kernels")
    assert case.difference(library, case.kernel, schedule, True) <= case.tolerance


def test_every_kernel_has_a_case(metal: Callable[[str], Library]) -> None:
    assert set(BY_NAME) == set(metal("kernels").kernels)
