"""The conformance kit on an imitated device: all of it, but for what Metal has no word for."""

from collections.abc import Iterator

import pytest
from imitation import ImitatedTarget

from lamina.testing import Case, cases
from lamina.testing.conformance import RAN
from lamina.testing.verdict import Outcome, judge

pytestmark = [pytest.mark.usefixtures("compiler"), pytest.mark.gpu]

SHORT = ("missing-numbers", "reuse", "blocks-q4_0")
"""Cases that are looked at every time."""

REFUSED = "metal has no 64-bit floats"


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_kept(_own_cache: None) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAMINA_DISK_CACHE", "off")
        yield


def checked(case: Case) -> Outcome:
    """Judge a case: nothing fails, and what is refused has floats of 64 bits."""
    outcome = judge(ImitatedTarget(), case)
    RAN["metal"].add(outcome)
    wrong = [f"{each.name}: {each.failed}" for each in outcome.verdicts if each.failed]
    refused = [each for each in outcome.verdicts if each.refused]
    wrong += [
        f"{each.name}: {each.refused}" for each in refused if REFUSED not in str(each.refused)
    ]
    assert not wrong
    return outcome


@pytest.mark.parametrize(
    "case", [c for c in cases() if c.name in SHORT], ids=lambda case: case.name
)
def test_some_cases_compute_what_the_reference_computes(case: Case) -> None:
    assert all(each.passed for each in checked(case).verdicts)


@pytest.mark.gpu
@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
def test_a_case_computes_what_the_reference_computes(case: Case) -> None:
    outcome = checked(case)
    assert "f64" in case.name or any(each.passed for each in outcome.verdicts)
