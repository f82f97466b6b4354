"""Calls of `paged_attention.mlir`: sequences of mixed lengths, NaN wherever no token lies."""

from __future__ import annotations

import numpy as np

from lamina.testing.zoo.case import Array, ZooRun, blank, normal

PAGE, DEPTH, GROUP, BLOCK = 16, 32, 3, 2


def make(rng: np.random.Generator, size: int) -> ZooRun:
    """Return `size` sequences, of which every third is decoding, over pages in random order."""
    heads = 2
    new = np.array([1 if s % 3 == 0 else int(rng.integers(1, 6)) for s in range(size)], int)
    past = rng.integers(0, 40, size)
    start = np.concatenate([[0], np.cumsum(new)]).astype(np.int32)
    owner = np.repeat(np.arange(size), new)
    pos = (np.arange(len(owner)) - start[owner] + past[owner]).astype(np.int32)
    columns = int(max((past + new + PAGE - 1) // PAGE, default=0))
    table = rng.permutation(size * columns).reshape(size, columns).astype(np.int32)
    keys = blank(size * columns, heads, DEPTH, PAGE)
    values = blank(size * columns, heads, PAGE, DEPTH)
    q = normal(rng, len(pos), heads, GROUP, DEPTH)
    expected = blank(*q.shape)
    for s in range(size):
        k, v = (normal(rng, int(past[s] + new[s]), heads, DEPTH) for _ in range(2))
        slots = np.arange(len(k))
        pages, rows = table[s, slots // PAGE], slots % PAGE
        keys[pages, :, :, rows] = k
        values[pages, :, rows] = v
        for t in range(start[s], start[s + 1]):
            expected[t] = _attend(q[t], k[: pos[t] + 1], v[: pos[t] + 1])
    blocks = int(max(-(-new // BLOCK), default=0))
    symbols = {"S": size, "QB": blocks, "H": heads}
    return ZooRun([q, keys, values, start, pos, table, blank(*q.shape)], symbols, {6: expected})


def _attend(q: Array, k: Array, v: Array) -> Array:
    scores = np.einsum("hgd,nhd->hgn", q, k) * np.float32(DEPTH**-0.5)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hgn,nhd->hgd", weights / weights.sum(-1, keepdims=True), v)
