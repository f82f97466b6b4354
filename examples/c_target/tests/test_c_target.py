"""The target `c`, found by its entry point: all conformance cases, the zoo, whole models."""

import os
import shutil
from pathlib import Path

import lamina_c
import numpy as np
import pytest
from lamina_c.printer import RULES, Printer
from lamina_c.target import CTarget, compiled

import lamina
from lamina.errors import LoweringError, TargetUnavailable
from lamina.frontend import llama
from lamina.passes.decompose_math import decompose_functions
from lamina.plugins import manager
from lamina.runtime.scoring import token_logits
from lamina.runtime.session import Session
from lamina.targets.reference.kernel import grid_of
from lamina.targets.reference.walker import call_native
from lamina.testing import Case, cases, check
from lamina.testing.kernels import ZOO, read_kernel
from lamina.testing.suites.models import LLAMA, Invented
from lamina.testing.zoo.case import ZooCase


@pytest.fixture(scope="session", autouse=True)
def cc() -> str:
    """Skip by name where there is no C compiler; on CI there is to be one."""
    if (path := shutil.which("cc")) is None:
        reason = "cc is missing: install the Debian package gcc"
        if os.environ.get("CI") == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    return path


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
def test_a_case_is_accepted_and_computes_what_the_reference_computes(case: Case) -> None:
    check("c", case)


@pytest.mark.parametrize("case", ZOO, ids=lambda case: case.name)
def test_a_program_of_the_zoo_computes_what_numpy_does(case: ZooCase, cc: str) -> None:
    kernel, printer = read_kernel(case.path), Printer()
    decompose_functions(kernel)
    printer.kernel(kernel, "k0")
    code = compiled("\n".join(printer.lines).encode(), cc)
    for size in case.sizes:
        made = case.make(np.random.default_rng(size), size)
        symbols = {**made.symbols, "workers": 2}
        indices = [symbols[symbol.data] for symbol in kernel.symbols]
        failed = call_native(code["k0"], grid_of(kernel, symbols), made.memrefs, indices)
        assert ["", *printer.nodes][failed] == case.error
        for position, expected in made.expected.items():
            scale = max(1.0, float(np.abs(expected[np.isfinite(expected)]).max(initial=0)))
            limit = case.tolerance * scale
            np.testing.assert_allclose(made.memrefs[position], expected, rtol=0, atol=limit)


def test_every_operation_with_a_rule_is_accepted() -> None:
    assert {op.name for op in RULES} <= CTarget().accepts


def test_the_target_is_offered_by_the_plugin_alone() -> None:
    assert manager.offers("register_targets")["c"].owner == "c"


def test_the_dump_shows_the_code(tmp_path: Path) -> None:
    case = next(each for each in cases() if each.name == "softmax")
    sheet = case.sheet()
    lamina.compile(sheet.module, "c", dump=tmp_path, weights=sheet.weights)
    assert "void k0(" in (tmp_path / "kernels.c").read_text()


def test_a_missing_compiler_is_named() -> None:
    with pytest.raises(TargetUnavailable, match="no C compiler 'no-such-cc'"):
        compiled(b"", "no-such-cc")


def test_code_that_is_refused_is_an_error(cc: str) -> None:
    with pytest.raises(LoweringError, match="refuses the kernels"):
        compiled(b"int f(", cc)


def test_the_package_has_at_most_400_lines() -> None:
    folder = Path(lamina_c.__file__).parent
    lines = [path.read_text().splitlines() for path in folder.iterdir() if path.is_file()]
    assert sum(map(len, lines)) <= 400


def test_a_whole_llama_is_scored_in_a_session_as_by_the_reference() -> None:
    weights = Invented("f32")
    module, ids = llama.build(LLAMA, weights), [5, 60, 0, 17, 17, 31, 2]
    found = {
        target: token_logits(
            Session(lamina.compile(module, target, weights=weights), 32, chunk_tokens=3), ids
        )
        for target in ("c", "reference")
    }
    assert found["c"].shape == (len(ids), LLAMA.vocab_size)
    np.testing.assert_allclose(found["c"], found["reference"], rtol=0, atol=1e-4)
