"""The conformance kit on the adapter: some cases every time, all of them with the long checks."""

from collections.abc import Iterator

import pytest

from lamina.testing import Case, cases
from lamina.testing.conformance import check_target

pytestmark = pytest.mark.gpu

SHORT = ("arithmetic-i64", "logic-i1", "missing-numbers", "softmax", "reuse", "blocks-q4_0", "gpt2")
"""Cases that are looked at every time."""


@pytest.fixture(scope="module", autouse=True)
def _nothing_is_kept(_own_cache: None) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAMINA_DISK_CACHE", "off")
        yield


@pytest.mark.parametrize(
    "case", [c for c in cases() if c.name in SHORT], ids=lambda case: case.name
)
def test_some_cases_compute_what_the_reference_computes(device, case: Case) -> None:
    check_target("webgpu", case)


@pytest.mark.gpu
@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
def test_a_case_computes_what_the_reference_computes(device, case: Case) -> None:
    check_target("webgpu", case)
