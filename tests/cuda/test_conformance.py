"""The conformance kit on the interpreter: all of it, nothing is refused."""

from collections.abc import Iterator

import pytest
from fake_cuda import FakeCudaTarget

from lamina.testing import Case, cases
from lamina.testing.conformance import RAN
from lamina.testing.report import passed
from lamina.testing.verdict import judge

SHORT = ("casts-bf16", "logic-i1", "missing-numbers", "norms", "reuse", "scans", "page-attention")
"""Cases that are looked at every time."""

TARGET = FakeCudaTarget()


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_kept(_own_cache: None) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAMINA_DISK_CACHE", "off")
        yield


def checked(case: Case) -> None:
    outcome = judge(TARGET, case)
    RAN["cuda"].add(outcome)
    assert not any(each.refused for each in outcome.verdicts)
    passed(outcome)


@pytest.mark.parametrize(
    "case", [c for c in cases() if c.name in SHORT], ids=lambda case: case.name
)
def test_some_cases_compute_what_the_reference_computes(case: Case) -> None:
    checked(case)


@pytest.mark.gpu
@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
def test_a_case_computes_what_the_reference_computes(case: Case) -> None:
    checked(case)
