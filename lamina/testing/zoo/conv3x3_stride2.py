"""Calls of `conv3x3_stride2.mlir`: images of odd extents."""

from __future__ import annotations

import numpy as np

from lamina.testing.zoo.case import ZooRun, blank, normal

CHANNELS, LANES = 8, 16


def make(rng: np.random.Generator, size: int) -> ZooRun:
    """Return two images of `size` by 7 pixels and 32 output channels."""
    batch, height, width, blocks = 2, size, 7, 2
    oh, ow = (height + 1) // 2, (width + 1) // 2
    x = normal(rng, batch, height, width, CHANNELS)
    w = normal(rng, 3, 3, CHANNELS, blocks * LANES)
    bias = normal(rng, blocks * LANES)
    packed = w.reshape(3, 3, CHANNELS, blocks, LANES).transpose(3, 0, 1, 2, 4).copy()
    out = blank(batch, oh, ow, blocks, LANES)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    y = np.zeros((batch, oh, ow, blocks * LANES)) + bias
    for i in range(3):
        for j in range(3):
            window = padded[:, i : i + 2 * oh - 1 : 2, j : j + 2 * ow - 1 : 2]
            y += np.einsum("bhwc,co->bhwo", window[:, :oh].astype(float), w[i, j])
    expected = np.maximum(y, 0).reshape(out.shape).astype(np.float32)
    symbols = {"B": batch, "OH": oh, "OW": ow, "CB": blocks}
    return ZooRun([x, packed, bias.reshape(blocks, LANES), out], symbols, {3: expected})
