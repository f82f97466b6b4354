"""Calls of `lstm_steps.mlir`: sequences of several lengths in one batch."""

from __future__ import annotations

import numpy as np

from lamina.testing.zoo.case import Array, ZooRun, blank, normal

WIDTH = 16


def make(rng: np.random.Generator, size: int) -> ZooRun:
    """Return seven sequences of at most `size` steps, 11 numbers a step."""
    batch, inputs = 7, 11
    x = normal(rng, size, batch, inputs)
    w = normal(rng, inputs, 4 * WIDTH) * np.float32(0.3)
    r = normal(rng, WIDTH, 4 * WIDTH) * np.float32(0.3)
    b = normal(rng, 4 * WIDTH)
    lengths = rng.integers(0, size + 1, batch).astype(np.int32)
    y = np.zeros((size, batch, WIDTH))
    h, c = np.zeros((batch, WIDTH)), np.zeros((batch, WIDTH))
    for t in range(size):
        live = (t < lengths)[:, None]
        i, o, f, g = np.split(x[t].astype(float) @ w + h @ r + b, 4, axis=1)
        c = np.where(live, _sigmoid(f) * c + _sigmoid(i) * np.tanh(g), c)
        h = np.where(live, _sigmoid(o) * np.tanh(c), h)
        y[t] = np.where(live, h, 0)
    results = (blank(size, batch, WIDTH), blank(batch, WIDTH), blank(batch, WIDTH))
    expected = {5 + n: a.astype(np.float32) for n, a in enumerate((y, h, c))}
    return ZooRun([x, w, r, b, lengths, *results], {"B": batch, "T": size, "I": inputs}, expected)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))
