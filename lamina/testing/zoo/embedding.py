"""Calls of `embedding.mlir`: tokens of a small vocabulary, and tokens that are none."""

from __future__ import annotations

import numpy as np

from lamina.testing.zoo.case import ZooRun, blank, normal

VOCABULARY = 13


def make(rng: np.random.Generator, size: int) -> ZooRun:
    """Return `size` tokens of 45 numbers."""
    tokens = rng.integers(0, VOCABULARY, size).astype(np.int32)
    table = normal(rng, VOCABULARY, 45).astype(np.float16)
    symbols = {"T": size, "V": VOCABULARY, "D": 45}
    expected = table[tokens].astype(np.float32)
    return ZooRun([tokens, table, blank(*expected.shape)], symbols, {2: expected})


def make_outside(rng: np.random.Generator, size: int) -> ZooRun:
    """Return the same with the first token negative and the last one too large."""
    run = make(rng, size)
    run.memrefs[0][[0, -1]] = -1, VOCABULARY
    run.expected[2][[0, -1]] = 0
    return run
