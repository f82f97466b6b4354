import numpy as np
import pytest

from lamina.measure.kernel_table import KernelRow, StepTable, step_table
from lamina.measure.limits import Limits
from lamina.targets.timeline import WAITING, TracedCall, TracedStep

LIMITS = Limits(threads=2, read=1e9, copy=1e9, float_ops=2e9, integer_ops=8e9)
SECOND = 10**9
CALLS = (
    TracedCall("copy", bytes=SECOND, float_ops=0, integer_ops=0),
    TracedCall("floats", "m=4", bytes=8, float_ops=2 * SECOND, integer_ops=0),
    TracedCall("bytes", bytes=8, float_ops=0, integer_ops=4 * SECOND),
    TracedCall("attention", bytes=None, float_ops=None, integer_ops=0),
)


def step(*events: tuple[int, int, float, float], lost: int = 0) -> TracedStep:
    """Events of worker, call, and the seconds of its beginning and end."""
    rows = [(w, call, 1, int(begin * 1e9), int(end * 1e9)) for w, call, begin, end in events]
    return TracedStep(CALLS, np.array(rows, np.int64).reshape(-1, 5), lost)


def row(table: StepTable, kernel: str) -> KernelRow:
    (found,) = (each for each in table.kernels if each.kernel == kernel)
    return found


@pytest.mark.parametrize(
    ("call", "limit", "rate"),
    [(0, "reading", 0.5e9), (1, "f32", 1e9), (2, "8-bit", 2e9), (3, None, None)],
)
def test_a_kernel_is_held_against_the_limit_it_is_nearest_to(
    call: int, limit: str | None, rate: float | None
) -> None:
    table = step_table([step((0, call, 0, 2))], LIMITS, 1)
    found = table.kernels[0]
    assert (found.limit, found.rate) == (limit, rate)
    assert found.of_limit == {"reading": 0.5, "f32": 0.5, "8-bit": 0.25, None: None}[limit]


def test_the_time_of_a_kernel_is_that_of_its_workers_by_their_number() -> None:
    table = step_table([step((0, 0, 0, 2), (1, 0, 0, 1), (1, WAITING, 1, 2))], LIMITS, 2)
    found = row(table, "copy")
    assert (found.seconds, found.calls, found.share) == (1.5, 1, 0.75)
    assert (table.waiting, table.seconds, table.other) == (0.5, 2, 0)


def test_all_figures_are_those_of_one_step() -> None:
    steps = [step((0, 0, 0, 1), (0, 1, 1, 5)), step((0, 0, 6, 7), (0, 0, 8, 9))]
    table = step_table(steps, LIMITS, 1)
    assert [(each.kernel, each.seconds, each.calls) for each in table.kernels] == [
        ("floats", 2, 0.5),
        ("copy", 1.5, 1),
    ]
    assert (table.steps, table.seconds, table.between, table.other) == (2, 4.5, 0.5, 0.5)


def test_the_pause_before_the_first_step_counts_if_that_one_is_known() -> None:
    first, second = step((0, 0, 0, 1)), step((0, 0, 3, 4))
    assert step_table([second], LIMITS, 1).between == 0
    assert step_table([second], LIMITS, 1, before=first).between == 2


def test_the_arithmetic_of_all_products_is_summed() -> None:
    table = step_table([step((0, 0, 0, 1), (0, 1, 1, 2), (0, 2, 2, 3))], LIMITS, 1)
    assert table.at_limit == 1 + 0.5


def test_a_machine_without_an_instruction_has_no_such_limit() -> None:
    limits = Limits(threads=1, read=1e9, copy=1e9, float_ops=0.0, integer_ops=0.0)
    table = step_table([step((0, 2, 0, 2))], limits, 1)
    assert table.kernels[0].limit == "reading"
    assert table.at_limit == 0


def test_lost_events_are_counted() -> None:
    assert step_table([step((0, 0, 0, 1), lost=3)], LIMITS, 1).lost == 3


def test_a_step_in_which_nothing_was_noted_has_an_empty_table() -> None:
    table = step_table([step(), step((0, 0, 0, 1))], LIMITS, 1)
    assert (table.seconds, table.between) == (0.5, 0)
