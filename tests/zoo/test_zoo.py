"""Every program of the zoo, run by the reference."""

from contextlib import nullcontext

import numpy as np
import pytest
from xdsl.parser import Parser

from lamina.errors import InputError
from lamina.targets.reference.kernel import run_kernel
from lamina.testing.kernels import ZOO, context, read_kernel
from lamina.testing.zoo.case import Array, ZooCase, ZooRun

CALLS = [pytest.param(case, size, id=f"{case.name}-{size}") for case in ZOO for size in case.sizes]
PROGRAMS = sorted({case.path for case in ZOO})


def call(case: ZooCase, size: int, *, workers: int = 2, seed: int | None = None) -> ZooRun:
    call = case.make(np.random.default_rng(size), size)
    refused = pytest.raises(InputError, match=case.error) if case.error else nullcontext()
    with refused:
        run_kernel(read_kernel(case.path), call.memrefs, call.symbols, workers, seed=seed)
    return call


def assert_near(got: Array, expected: Array, tolerance: float) -> None:
    finite = expected[np.isfinite(expected)] if expected.dtype.kind == "f" else expected
    scale = max(1.0, float(np.abs(finite).max(initial=0)))
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize(("case", "size"), CALLS)
def test_a_program_computes_what_numpy_does(case: ZooCase, size: int) -> None:
    done = call(case, size)
    for position, expected in done.expected.items():
        assert_near(done.memrefs[position], expected, case.tolerance)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_prints_and_parses_back_to_equal_text(path) -> None:
    _comment, _, text = path.read_text().partition("builtin.module")
    module = Parser(context(), path.read_text()).parse_module()
    module.verify()
    assert str(module) + "\n" == "builtin.module" + text
    assert Parser(context(), str(module)).parse_module().is_structurally_equivalent(module)


@pytest.mark.parametrize("case", ZOO, ids=lambda case: case.name)
def test_programs_of_a_grid_run_in_any_order_and_number_of_workers(case: ZooCase) -> None:
    size = case.sizes[-1]
    plain, shuffled = call(case, size), call(case, size, workers=3, seed=size)
    for a, b in zip(plain.memrefs, shuffled.memrefs, strict=True):
        np.testing.assert_array_equal(a, b)
