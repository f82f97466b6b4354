"""Calls of `conv_rows.mlir`: images of 5 columns and more, padding of two kinds."""

from __future__ import annotations

import numpy as np

from lamina.testing.zoo.case import ZooRun, blank, normal

LANES, OUTPUTS = 16, 20


def make(rng: np.random.Generator, size: int) -> ZooRun:
    """Return two images of `size` by 12 pixels."""
    batch, height, width = 2, size, 12
    x, w, bias = normal(rng, batch, height, width, 6), normal(rng, 3, 3, 6, 20), normal(rng, 20)
    padded = np.pad(x.astype(float), ((0, 0), (1, 1), (2, 0), (0, 0)))
    shape = (batch, (height - 1) // 2 + 1, width, OUTPUTS)
    y = np.zeros(shape)
    for i, j in np.ndindex(3, 3):
        window = padded[:, i : i + 2 * shape[1] - 1 : 2, j : j + width]
        y += window[:, : shape[1]] @ w[i, j]
    expected = np.maximum(y + bias, 0).reshape(-1, OUTPUTS).astype(np.float32)
    panels = np.pad(w, ((0, 0), (0, 0), (0, 0), (0, 12))).reshape(3, 3, 6, 2, LANES)
    packed = panels.transpose(3, 0, 1, 2, 4).copy()
    sizes = {"n0": batch, "n1": height, "n2": width}
    return ZooRun([x, packed, bias, blank(*expected.shape)], sizes, {3: expected})
