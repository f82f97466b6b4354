"""Calls of `top_k.mlir`: rows with many equal values."""

from __future__ import annotations

import numpy as np

from lamina.testing.zoo.case import ZooRun, blank


def make(rng: np.random.Generator, size: int) -> ZooRun:
    """Return three rows of `size` numbers out of a few, and ask for at most nine of each."""
    rows, k = 3, min(size, 9)
    x = (rng.integers(-20, 20, (rows, size)) / 4).astype(np.float32)
    order = np.argsort(-x, axis=1, kind="stable")[:, :k].astype(np.int32)
    memrefs = [x, blank(rows, k), np.full((rows, k), -7, np.int32)]
    expected = {1: np.take_along_axis(x, order, 1), 2: order}
    return ZooRun(memrefs, {"R": rows, "N": size, "K": k}, expected)
