"""Calls of `pool3x3_stride2.mlir`: odd extents, channels that fill no lane block, some NaN."""

from __future__ import annotations

import numpy as np

from lamina.testing.zoo.case import ZooRun, blank, normal


def make(rng: np.random.Generator, size: int) -> ZooRun:
    """Return two images of 5 by `size` pixels and 19 channels."""
    batch, height, width, channels = 2, 5, size, 19
    oh, ow = (height + 1) // 2, (width + 1) // 2
    x = normal(rng, batch, height, width, channels)
    x[rng.random(x.shape) < 0.01] = np.nan
    shape = (batch, oh, ow, channels)
    top, mean = np.empty(shape, np.float32), np.empty(shape, np.float32)
    for i in range(oh):
        for j in range(ow):
            rows = slice(max(2 * i - 1, 0), 2 * i + 2)
            window = x[:, rows, max(2 * j - 1, 0) : 2 * j + 2]
            top[:, i, j] = window.max((1, 2))
            mean[:, i, j] = window.mean((1, 2))
    sizes = {"B": batch, "H": height, "W": width, "OH": oh, "OW": ow, "C": channels}
    return ZooRun([x, blank(*shape), blank(*shape)], sizes, {1: top, 2: mean})
