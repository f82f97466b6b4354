"""Calls of `depthwise_rows.mlir`: images of few rows, a last panel that is half full."""

from __future__ import annotations

import numpy as np

from lamina.testing.zoo.case import ZooRun, blank, normal

CHANNELS, LANES = 24, 16


def make(rng: np.random.Generator, size: int) -> ZooRun:
    """Return two images of 3 by `size` pixels."""
    batch, height, width = 2, 3, size
    x, w = normal(rng, batch, height, width, CHANNELS), normal(rng, 3, 3, CHANNELS)
    padded = np.pad(x.astype(float), ((0, 0), (1, 1), (1, 1), (0, 0)))
    columns = (width - 1) // 2 + 1
    y = np.zeros((batch, height, columns, CHANNELS))
    for i, j in np.ndindex(3, 3):
        window = padded[:, i : i + height, j : j + 2 * columns - 1 : 2]
        y += window[:, :, :columns] * w[i, j]
    expected = y.reshape(-1, CHANNELS).astype(np.float32)
    packed = np.zeros((2, 3, 3, 1, LANES), np.float32)
    packed[0, :, :, 0], packed[1, :, :, 0, :8] = w[..., :LANES], w[..., LANES:]
    sizes = {"n0": batch, "n1": height, "n2": width}
    return ZooRun([x, packed, blank(*expected.shape)], sizes, {2: expected})
