"""Every registered pass on every case."""

import pytest

from lamina.plugins import manager
from lamina.testing import Case, cases
from lamina.testing.conformance import check_pass


@pytest.mark.parametrize("name", sorted(manager.passes()))
@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
def test_a_pass_changes_nothing_that_a_module_computes(name: str, case: Case) -> None:
    check_pass(name, case)
