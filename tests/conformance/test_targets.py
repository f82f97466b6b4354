"""Every target of this machine on every case, and the CPU as one with less than this one has.

What GPU targets refuse is looked at, and not only counted, in their own tests.
"""

import pytest

from lamina.plugins import manager
from lamina.testing import Case, cases
from lamina.testing.conformance import check_target

ON_A_DEVICE = {"cuda", "metal", "webgpu"}
TARGETS = [*sorted(manager.targets().keys() - ON_A_DEVICE), "cpu{features=avx2}"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
def test_a_target_computes_what_the_reference_computes(target: str, case: Case) -> None:
    check_target(target, case)
