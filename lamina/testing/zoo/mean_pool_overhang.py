"""Calls of `mean_pool_overhang.mlir`: windows that reach beyond the padding, or not."""

from __future__ import annotations

import numpy as np

from lamina.testing.zoo.case import ZooRun, blank, normal

CHANNELS = 5


def _count(extent: int, size: int, pads: tuple[int, int]) -> int:
    """Return how many windows begin before the padding behind, two apart."""
    room = extent + sum(pads) - size
    return min(-(-room // 2), (extent + pads[0] - 1) // 2) + 1


def make(rng: np.random.Generator, size: int) -> ZooRun:
    """Return two images of 6 by `size` + 1 pixels."""
    batch, height, width = 2, 6, size + 1
    x = normal(rng, batch, height, width, CHANNELS)
    shape = (batch, _count(height, 3, (1, 0)), _count(width, 2, (0, 1)), CHANNELS)
    mean = np.empty(shape, np.float32)
    for i, j in np.ndindex(*shape[1:3]):
        rows = slice(max(2 * i - 1, 0), 2 * i + 2)
        mean[:, i, j] = x[:, rows, 2 * j : 2 * j + 2].mean((1, 2))
    expected = mean.reshape(-1, CHANNELS)
    sizes = {"n0": batch, "n1": height, "n2": width}
    return ZooRun([x, blank(*expected.shape)], sizes, {1: expected})
