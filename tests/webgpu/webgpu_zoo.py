"""The kernels of the zoo as threads of webgpu run them, and how near results have to be."""

from functools import cache
from pathlib import Path

import numpy as np
from xdsl.parser import Parser

from lamina.dialects.simt import KernelOp
from lamina.passes.choose_layouts import ChooseLayoutsPass
from lamina.passes.decompose_math import DecomposeMathPass
from lamina.passes.lower_tiles import LowerTilesPass
from lamina.testing.kernels import context


@cache
def lowered(path: Path) -> KernelOp:
    ctx = context()
    module = Parser(ctx, path.read_text()).parse_module()
    for each in (DecomposeMathPass(), ChooseLayoutsPass(64), LowerTilesPass(64, 8)):
        each.apply(ctx, module)
    return module.body.block.first_op


def near(got, expected, tolerance):
    finite = expected[np.isfinite(expected)] if expected.dtype.kind == "f" else expected
    scale = max(1.0, float(np.abs(finite).max(initial=0)))
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * scale)
