"""Calls of `split_kv_merge.mlir`: parts of uneven length, some of them empty."""

from __future__ import annotations

import numpy as np

from lamina.testing.zoo.case import ZooRun, blank, normal

DEPTH, PART = 32, 8


def make(rng: np.random.Generator, size: int) -> ZooRun:
    """Return `size` rows, each over up to 30 keys in four parts; the first row has no key."""
    parts = 4
    m = np.full((parts, size), -np.inf, np.float32)
    sums = np.zeros((parts, size), np.float32)
    o = np.zeros((parts, size, DEPTH), np.float32)
    expected = np.zeros((size, DEPTH), np.float32)
    for row in range(size):
        keys = int(rng.integers(1, 31)) if row else 0
        scores, values = normal(rng, keys) * np.float32(5), normal(rng, keys, DEPTH)
        for s in range(-(-keys // PART)):
            part = slice(s * PART, (s + 1) * PART)
            m[s, row] = scores[part].max()
            weights = np.exp(scores[part] - m[s, row])
            sums[s, row], o[s, row] = weights.sum(), weights @ values[part]
        if keys:
            weights = np.exp(scores.astype(float) - scores.max())
            expected[row] = weights @ values / weights.sum()
    return ZooRun([m, sums, o, blank(size, DEPTH)], {"S": parts, "R": size}, {3: expected})
