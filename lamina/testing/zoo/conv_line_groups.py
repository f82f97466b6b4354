"""Calls of `conv_line_groups.mlir`: lines of some places more than the window has."""

from __future__ import annotations

import numpy as np

from lamina.testing.zoo.case import ZooRun, blank, normal

GROUPS, LANES = 2, 4


def make(rng: np.random.Generator, size: int) -> ZooRun:
    """Return three lines of `size` places and one more."""
    batch, length = 3, size + 1
    x, w = normal(rng, batch, length, GROUPS, 2), normal(rng, GROUPS, 3, 2, 3)
    padded = np.pad(x.astype(float), ((0, 0), (2, 3), (0, 0), (0, 0)))
    y = np.zeros((batch, size, GROUPS, 3))
    for place in range(3):
        window = padded[:, 3 * place : 3 * place + size]
        y += np.einsum("btgc,gco->btgo", window, w[:, place])
    expected = y.reshape(batch * size, 6).astype(np.float32)
    packed = np.pad(w, ((0, 0), (0, 0), (0, 0), (0, LANES - 3)))
    sizes = {"n0": batch, "n1": length}
    memrefs = [x.reshape(batch, length, 4), packed, blank(*expected.shape)]
    return ZooRun(memrefs, sizes, {2: expected})
