"""The language and its library are those of Metal."""

from collections.abc import Callable
from math import e, nan, pi
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from lamina.testing.msl import Library


def test_vectors_have_components_choices_and_operators(metal: Callable[[str], Library]) -> None:
    y = np.zeros(17, np.float32)
    metal("language").run("vectors", [y, np.arange(6, dtype=np.float32)], (1,), (1,))
    expected = [6, 41, 3, 4.5, 5, -3, 16, 2, 12, 212, 3, pi, 1, 10, 161216, 7, 10]
    np.testing.assert_allclose(y, expected, rtol=1e-6)


def test_scalars_have_the_types_and_functions_of_metal(metal: Callable[[str], Library]) -> None:
    y = np.zeros(20, np.float32)
    metal("language").run("scalars", [y, np.uint32([0x7F800001])], (1,), (1,))
    third = float(np.float16(1 / 3))
    reals = [e + 1, 7.5, 8, 7, float(np.float16(third * 3)), third * 3, 1, nan, 1, 2]
    expected = [*reals, 5 + 3 + 8 + 31 + 3, 2 + 3 + 0.25 - 1, 22, 4, 1, 0xBC, 12, 1, 29, 1]
    np.testing.assert_allclose(y, expected, rtol=1e-6)


def test_lanes_hear_of_each_other(metal: Callable[[str], Library]) -> None:
    y = np.zeros((32, 16), np.uint32)
    metal("language").run("lanes", [y], (1,), (32,))
    lane = np.arange(32)
    columns: list[Any] = [496, 6, 5, 31 - lane, lane ^ 5, np.where(lane < 29, lane + 3, lane)]
    columns += [np.where(lane < 3, lane, lane - 3), 36, 0xAAAAAAAA, 5, np.cumsum(lane)]
    columns += [np.cumsum(lane) - lane, (lane - 1) % 32, 32, 320321, 9]
    np.testing.assert_array_equal(y, np.stack([lane * 0 + each for each in columns], 1))


def test_the_last_simdgroup_may_have_fewer_lanes(metal: Callable[[str], Library]) -> None:
    y = np.zeros(40, np.uint32)
    metal("language").run("last_lanes", [y], (1,), (40,))
    np.testing.assert_array_equal(y, np.repeat([32, 8], [32, 8]))


@pytest.mark.parametrize(
    ("kernel", "dtype"), [("halves", np.float16), ("bfloats", ml_dtypes.bfloat16)]
)
def test_floats_of_16_bits_are_rounded_after_each_operation(
    metal: Callable[[str], Library], kernel: str, dtype: Any
) -> None:
    x = np.random.default_rng(3).normal(size=1025, scale=10).astype(dtype)
    y = np.zeros(1024, dtype)
    metal("language").run(kernel, [x, y], (8,), (128,))
    np.testing.assert_array_equal(y, x[:-1] * x[1:] + x[:-1])


def test_matrices_are_loaded_multiplied_and_stored(metal: Callable[[str], Library]) -> None:
    x = np.random.default_rng(3).normal(size=(8, 8)).astype(ml_dtypes.bfloat16)
    y, z = np.zeros_like(x), np.zeros((8, 16), np.float32)
    metal("language").run("matrices", [x, y, z], (1,), (32,))
    wide = x.astype(np.float32)
    np.testing.assert_allclose(z[:, 8:], wide @ wide.T + 2 * np.eye(8), rtol=1e-5)
    np.testing.assert_array_equal(y, 2 * x.T)


@pytest.mark.parametrize("schedule", ["forward", "random"])
def test_atomic_operations_lose_nothing(metal: Callable[[str], Library], schedule: Any) -> None:
    y, z = np.zeros(5, np.int32), np.zeros(1, np.float32)
    metal("language").run("atomics", [y, z], (2,), (50,), schedule=schedule)
    assert [*y, *z] == [4950, 99, -99, 127, 200, 50.0]
