"""The kernel zoo on the adapter: with subgroups, and by way of workgroup memory."""

from contextlib import nullcontext
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from device_kernel import run_on
from xdsl.parser import Parser

from lamina.dialects.simt import KernelOp
from lamina.errors import InputError
from lamina.passes.choose_layouts import ChooseLayoutsPass
from lamina.passes.decompose_math import DecomposeMathPass
from lamina.passes.lower_tiles import LowerTilesPass
from lamina.testing.kernels import ZOO, context
from lamina.testing.zoo.case import ZooCase


@cache
def lowered(path: Path) -> KernelOp:
    ctx = context()
    module = Parser(ctx, path.read_text()).parse_module()
    for each in (DecomposeMathPass(), ChooseLayoutsPass(64), LowerTilesPass(64, 8)):
        each.apply(ctx, module)
    return module.body.block.first_op


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


def near(got, expected, tolerance):
    finite = expected[np.isfinite(expected)] if expected.dtype.kind == "f" else expected
    scale = max(1.0, float(np.abs(finite).max(initial=0)))
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * scale)
