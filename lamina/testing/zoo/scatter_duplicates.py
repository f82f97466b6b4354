"""Calls of `scatter_duplicates.mlir`: rows hit often, rows missed, rows outside."""

from __future__ import annotations

import numpy as np

from lamina.testing.zoo.case import ZooRun, normal


def make(rng: np.random.Generator, size: int) -> ZooRun:
    """Return `size` updates of six rows of 19 columns."""
    rows, columns = 6, 19
    at = rng.integers(-1, rows + 1, size).astype(np.int32)
    x = normal(rng, size, columns)
    total, last = normal(rng, rows, columns), normal(rng, rows, columns)
    inside = (at >= 0) & (at < rows)
    expected_total, expected_last = total.copy(), last.copy()
    np.add.at(expected_total, at[inside], x[inside])
    for row, update in zip(at[inside], x[inside], strict=True):
        expected_last[row] = update
    expected = {2: expected_total, 3: expected_last}
    return ZooRun([at, x, total, last], {"U": size, "C": columns}, expected)
