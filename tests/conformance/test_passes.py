"""Every registered pass on every case."""

import pytest

from lamina.plugins import manager
from lamina.targets.cpu.target import CpuTarget
from lamina.testing import Case, cases
from lamina.testing.conformance import check_pass

OURS = {step.name for step in CpuTarget().passes()}
"""The passes through which the CPU's kernels come; those of GPUs alone leave a module as it is."""

NAMES = [
    name if name in OURS else pytest.param(name, marks=pytest.mark.gpu)
    for name in sorted(manager.passes())
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
def test_a_pass_changes_nothing_that_a_module_computes(name: str, case: Case) -> None:
    check_pass(name, case)
