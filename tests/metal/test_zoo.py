"""The kernel zoo in Metal's language, threads in every order, and without its barriers."""

import numpy as np
import pytest
from zoo_texts import CASES, in_one, mutants

from lamina.errors import InputError
from lamina.testing.msl import SCHEDULES, MslError

pytestmark = [pytest.mark.usefixtures("compiler"), pytest.mark.gpu]

LONG = ("paged_attention", "norm_quantize_matmul", "scatter_duplicates", "lstm_steps")
SHORT = tuple(name for name, case in CASES.items() if not case.error and name not in LONG)
RIGHT = [*SHORT, *(pytest.param(name, marks=pytest.mark.gpu) for name in LONG)]
MUTATED = ("top_k", "embedding")
MUTATED_TOO = LONG[:3]
"""Programs of which every single barrier is needed."""


def near(got: np.ndarray, expected: np.ndarray, tolerance: float) -> None:
    finite = expected[np.isfinite(expected)] if expected.dtype.kind == "f" else expected
    scale = max(1.0, float(np.abs(finite).max(initial=0)))
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * scale)


def run(name: str, size: int, schedule: str) -> None:
    case = CASES[name]
    call = case.make(np.random.default_rng(size), size)
    memrefs = [np.ascontiguousarray(each) for each in call.memrefs]
    programs = in_one(LONG if name in LONG else SHORT)
    programs.run(name, memrefs, call.symbols, schedule=schedule)
    for position, expected in call.expected.items():
        near(memrefs[position], expected, case.tolerance)


@pytest.mark.parametrize("name", RIGHT)
def test_a_program_computes_what_numpy_does(name):
    for size in CASES[name].sizes:
        run(name, size, "forward")


@pytest.mark.parametrize("schedule", SCHEDULES[1:])
@pytest.mark.parametrize("name", RIGHT)
def test_the_order_of_threads_changes_nothing(name, schedule):
    run(name, CASES[name].sizes[-2:][0], schedule)


def test_a_failed_check_names_its_node():
    case = CASES["embedding_outside"]
    call = case.make(np.random.default_rng(3), 3)
    with pytest.raises(InputError, match=case.error):
        in_one(SHORT).run("embedding", list(call.memrefs), call.symbols)


def caught(names: tuple[str, ...]) -> None:
    library = mutants(names)
    for mutant in library.texts:
        case = CASES[mutant.split()[0]]
        call = case.make(np.random.default_rng(1), case.sizes[-1])
        with pytest.raises(MslError, match=r"line \d+: .*thread"):
            library.run(mutant, list(call.memrefs), call.symbols)


def test_a_program_without_one_of_its_barriers_is_caught():
    caught(MUTATED)


@pytest.mark.gpu
def test_a_long_program_without_one_of_its_barriers_is_caught():
    caught(MUTATED_TOO)
