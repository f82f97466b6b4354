"""Calls of `winograd_conv3x3.mlir`: images of odd extents, weights transformed beforehand."""

from __future__ import annotations

import numpy as np

from lamina.testing.zoo.case import ZooRun, blank, normal

LANES = 16
WEIGHT_TRANSFORM = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
"""G of F(2x2, 3x3). (Lavin and Gray, Fast algorithms for convolutional neural networks, 2015.)"""


def make(rng: np.random.Generator, size: int) -> ZooRun:
    """Return two images of `size` by 5 pixels, 32 channels in and 16 out."""
    batch, height, width, blocks_in, blocks_out = 2, size, 5, 2, 1
    x = normal(rng, batch, height, width, blocks_in, LANES)
    w = normal(rng, 3, 3, blocks_in, LANES, blocks_out, LANES) * np.float32(0.1)
    g = WEIGHT_TRANSFORM
    u = np.einsum("ai,bj,ijkcop->okabcp", g, g, w.astype(float))
    u = u.reshape(blocks_out, blocks_in, 16, LANES, LANES).astype(np.float32)
    out = blank(batch, height, width, blocks_out, LANES)
    padded = np.pad(x.astype(float), ((0, 0), (1, 1), (1, 1), (0, 0), (0, 0)))
    expected = np.zeros(out.shape)
    for i in range(3):
        for j in range(3):
            window = padded[:, i : i + height, j : j + width]
            expected += np.einsum("bhwkc,kcop->bhwop", window, w[i, j])
    symbols = {
        "B": batch,
        "TH": (height + 1) // 2,
        "TW": (width + 1) // 2,
        "CB": blocks_in,
        "OB": blocks_out,
    }
    return ZooRun([x, u, out], symbols, {2: expected.astype(np.float32)})
