"""Calls of `softmax_long.mlir`: long rows, among them one with NaN and one with infinities."""

from __future__ import annotations

import numpy as np

from lamina.testing.zoo.case import ZooRun, blank, normal


def make(rng: np.random.Generator, size: int) -> ZooRun:
    """Return five rows of `size` numbers."""
    x = normal(rng, 5, size) * np.float32(10)
    x[1, size // 2 :] = -np.inf
    x[2, size // 2 : size // 2 + 1] = np.nan
    x[3] += np.float32(1000)
    with np.errstate(invalid="ignore"):
        weights = np.exp(x.astype(float) - x.max(1, keepdims=True, initial=-np.inf))
        expected = (weights / weights.sum(1, keepdims=True)).astype(np.float32)
    return ZooRun([x, blank(*x.shape)], {"R": len(x), "N": size}, {1: expected})
