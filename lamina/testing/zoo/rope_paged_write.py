"""Calls of `rope_paged_write.mlir`: tokens that go to slots all over the pages."""

from __future__ import annotations

import numpy as np

from lamina.testing.zoo.case import ZooRun, blank, normal

PAGE, DEPTH = 16, 32


def make(rng: np.random.Generator, size: int) -> ZooRun:
    """Return `size` tokens of two heads for four pages, which keep what else they hold."""
    heads, pages = 2, 4
    k = normal(rng, size, heads, DEPTH)
    pos = rng.integers(0, 2000, size).astype(np.int32)
    slot = rng.permutation(pages * PAGE)[:size].astype(np.int32)
    inverse = (10000.0 ** (-np.arange(0, DEPTH, 2) / DEPTH)).astype(np.float32)
    cache = blank(pages, heads, DEPTH, PAGE)
    angle = (pos[:, None].astype(np.float32) * inverse)[:, None].astype(float)
    even, odd = k[..., 0::2], k[..., 1::2]
    y = np.empty_like(k)
    y[..., 0::2] = even * np.cos(angle) - odd * np.sin(angle)
    y[..., 1::2] = even * np.sin(angle) + odd * np.cos(angle)
    expected = cache.copy()
    expected[slot // PAGE, :, :, slot % PAGE] = y
    return ZooRun([k, pos, slot, inverse, cache], {"T": size, "H": heads}, {4: expected})
