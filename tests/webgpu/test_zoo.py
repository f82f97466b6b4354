"""The kernel zoo on the adapter: with subgroups, and by way of workgroup memory."""

from contextlib import nullcontext

import numpy as np
import pytest
from device_kernel import run_on
from webgpu_zoo import lowered, near

from lamina.errors import InputError
from lamina.testing.kernels import ZOO
from lamina.testing.zoo.case import ZooCase


@pytest.mark.parametrize(
    "subgroups", [True, pytest.param(False, marks=pytest.mark.gpu)], ids=["subgroups", "memory"]
)
@pytest.mark.parametrize("case", ZOO, ids=lambda case: case.name)
def test_a_program_computes_what_numpy_does(device, case: ZooCase, subgroups):
    for size in case.sizes:
        call = case.make(np.random.default_rng(size), size)
        memrefs = [np.ascontiguousarray(each) for each in call.memrefs]
        refused = pytest.raises(InputError, match=case.error) if case.error else nullcontext()
        with refused:
            run_on(device, lowered(case.path), memrefs, call.symbols, subgroups=subgroups)
        for position, expected in call.expected.items():
            near(memrefs[position], expected, case.tolerance)
