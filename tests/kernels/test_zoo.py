"""Every program of the zoo as machine code, at every level of this machine and of AArch64."""

import pytest
from kernel_text import RUN
from zoo_calls import call, close

from lamina.dialects.tile import KernelOp
from lamina.passes.decompose_math import decompose_functions
from lamina.testing.kernels import ZOO, read_kernel
from lamina.testing.zoo.case import ZooCase


def native(case: ZooCase) -> KernelOp:
    kernel = read_kernel(case.path)
    decompose_functions(kernel)
    return kernel


PROGRAMS = {case.name: native(case) for case in ZOO}


@pytest.mark.parametrize("level", RUN)
@pytest.mark.parametrize("case", [c for c in ZOO if not c.error], ids=lambda c: c.name)
def test_a_program_computes_what_numpy_does(case, level, run_native):
    for size in case.sizes:
        made = call(case, size)
        assert run_native(PROGRAMS[case.name], made.memrefs, made.symbols, level) is None
        for position, expected in made.expected.items():
            assert close(made.memrefs[position], expected, case.tolerance), (size, position)


@pytest.mark.parametrize("level", RUN)
@pytest.mark.parametrize("case", [c for c in ZOO if c.error], ids=lambda c: c.name)
def test_a_failed_check_names_its_node(case, level, run_native):
    made = call(case, case.sizes[0])
    assert run_native(PROGRAMS[case.name], made.memrefs, made.symbols, level) == case.error
