"""Cases of every kind as the work of threads, in the reference, where no two may meet."""

import pytest

from lamina.testing import Case, cases
from lamina.testing.report import passed
from lamina.testing.stages import judge_pass

pytestmark = pytest.mark.gpu

SOME = list(cases())[::12]


@pytest.mark.parametrize("case", SOME, ids=lambda case: case.name)
def test_threads_compute_what_tiles_do(case: Case) -> None:
    outcome = judge_pass("lower-tiles", case, "webgpu")
    assert outcome.verdicts
    passed(outcome)
