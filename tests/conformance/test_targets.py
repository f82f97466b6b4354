"""Every registered target on every case."""

import pytest

from lamina.plugins import manager
from lamina.testing import Case, cases
from lamina.testing.conformance import check_target


@pytest.mark.parametrize("target", sorted(manager.targets()))
@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
def test_a_target_computes_what_the_reference_computes(target: str, case: Case) -> None:
    check_target(target, case)
