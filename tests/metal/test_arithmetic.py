"""Every operation on every element type in Metal's language, against the reference."""

from typing import Any

import numpy as np
import pytest
from operation_text import (
    EVERY,
    RUNS,
    arithmetic,
    casts,
    conversions,
    exchanges,
    indices,
    operations,
    runs,
    truths,
)
from shim_kernel import Shimmed, shimmed
from special_values import DTYPES, pairs, values

from lamina.targets.reference.simt import run_simt_kernel
from lamina.testing.msl import SCHEDULES

pytestmark = [pytest.mark.usefixtures("compiler"), pytest.mark.gpu]


@pytest.fixture(scope="module")
def every() -> Shimmed:
    kernels = [make(kind) for make in (arithmetic, conversions, exchanges) for kind in EVERY]
    return shimmed([*kernels, indices(), *(runs(*each) for each in RUNS)])


def same(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Where two arrays are equal to the bit, a NaN for a NaN."""
    bits = f"u{expected.itemsize}"
    equal = found.view(bits) == expected.view(bits)
    return equal | (np.isnan(found) & np.isnan(expected))


def both(every: Shimmed, name: str, given: list[Any], results: list[Any], n: int) -> list[Any]:
    """What a kernel makes of `given` in the reference, after seeing that Metal's is the same."""
    found, expected = ([*given, *(each.copy() for each in results)] for _ in range(2))
    every.run(name, found, {"n": n})
    run_simt_kernel(every.kernels[name], expected, {"n": n})
    return list(zip(found[len(given) :], expected[len(given) :], strict=True))


@pytest.mark.parametrize("kind", EVERY)
def test_operations_give_the_bits_of_the_reference(every, kind):
    given = list(pairs(kind))
    n, texts = len(given[0]), (operations(kind), truths(kind))
    results = [np.zeros((len(texts[0]), n), DTYPES[kind]), np.zeros((len(texts[1]), n), np.bool_)]
    for names, (found, expected) in zip(
        texts, both(every, f"arithmetic_{kind}", given, results, n), strict=True
    ):
        wrong = [
            name for name, row in zip(names, same(found, expected), strict=True) if not row.all()
        ]
        assert not wrong


@pytest.mark.parametrize("kind", EVERY)
def test_conversions_give_the_bits_of_the_reference(every, kind):
    x = values(kind)
    results = [np.zeros(len(x), DTYPES[to]) for to, _ in casts(kind)]
    made = both(every, f"conversions_{kind}", [x], results, len(x))
    wrong = [
        text for (_, text), (a, b) in zip(casts(kind), made, strict=True) if not same(a, b).all()
    ]
    assert not wrong


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("kind", EVERY)
def test_elements_pass_through_shared_memory_and_shuffles(every, kind, schedule):
    x = np.resize(values(kind), 190)
    expected = np.zeros(len(x), x.dtype)
    run_simt_kernel(every.kernels[f"exchanges_{kind}"], [x, expected], {"n": len(x)})
    found = np.zeros_like(expected)
    every.run(f"exchanges_{kind}", [x, found], {"n": len(x)}, schedule=schedule)
    assert same(found, expected).all()


@pytest.mark.parametrize(("kind", "run"), RUNS)
def test_neighbours_are_moved_together(every, kind, run):
    x = np.resize(values(kind), 8 * 70)
    y = np.zeros(len(x), x.dtype)
    every.run(f"runs_{kind}_{run}", [x, y], {"n": 70})
    assert same(y, x).all()


def test_an_integer_beyond_an_index_becomes_the_nearest_one(every):
    x = np.array([5, -3, 2**31 - 1, 2**31, 2**40 + 1, -(2**31), -(2**50)], np.int64)
    y = np.zeros_like(x)
    every.run("indices", [x, y], {"n": len(x)})
    np.testing.assert_array_equal(y, np.clip(x, -(2**31), 2**31 - 1))
