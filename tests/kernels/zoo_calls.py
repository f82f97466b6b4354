"""Calls of the programs of the zoo, and what is as good as their results."""

import numpy as np

from lamina.testing.zoo.case import ZooCase, ZooRun


def call(case: ZooCase, size: int) -> ZooRun:
    """Make a call whose memrefs lie row by row."""
    made = case.make(np.random.default_rng(size), size)
    return made._replace(memrefs=[np.ascontiguousarray(m) for m in made.memrefs])


def close(got: np.ndarray, expected: np.ndarray, tolerance: float) -> bool:
    """Whether two arrays agree within `tolerance` of the largest magnitude, NaN where NaN is."""
    x, y = got.astype(np.float64), expected.astype(np.float64)
    known = y[np.isfinite(y)]
    limit = tolerance * max(1.0, np.abs(known).max(initial=0.0))
    return np.allclose(x, y, rtol=0, atol=limit, equal_nan=True)
