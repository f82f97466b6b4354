"""Calls of `split_kv_attention.mlir`: sequences from no past to several parts of it."""

from __future__ import annotations

import numpy as np

from lamina.testing.zoo.case import ZooRun, blank, normal

PAGE, PART, DEPTH, GROUP, HEADS = 16, 64, 64, 3, 3
PAST = (0, 257, 1, 31, 63, 64)


def make(rng: np.random.Generator, size: int) -> ZooRun:
    """Return a token of each of `size` sequences, over pages in random order.

    Where no token lies, pages hold NaN.
    """
    pos = np.array([PAST[s % len(PAST)] for s in range(size)], np.int32)
    columns = int(max(pos // PAGE + 1, default=0))
    parts = int(max(pos // PART + 1, default=0))
    table = rng.permutation(size * columns).reshape(size, columns).astype(np.int32)
    keys = blank(size * columns, HEADS, DEPTH, PAGE)
    values = blank(size * columns, HEADS, PAGE, DEPTH)
    q = normal(rng, size, HEADS, GROUP, DEPTH)
    tops, sums = blank(size, HEADS, parts, GROUP), blank(size, HEADS, parts, GROUP)
    out = blank(size, HEADS, parts, GROUP, DEPTH)
    for s in range(size):
        k, v = (normal(rng, int(pos[s]) + 1, HEADS, DEPTH) for _ in range(2))
        slots = np.arange(len(k))
        pages, rows = table[s, slots // PAGE], slots % PAGE
        keys[pages, :, :, rows] = k
        values[pages, :, rows] = v
        scores = np.einsum("hgd,nhd->hgn", q[s], k) * np.float32(DEPTH**-0.5)
        for p in range(-(-len(k) // PART)):
            part = slice(p * PART, (p + 1) * PART)
            tops[s, :, p] = scores[..., part].max(-1)
            weights = np.exp(scores[..., part] - tops[s, :, p][..., None])
            sums[s, :, p] = weights.sum(-1)
            out[s, :, p] = np.einsum("hgn,nhd->hgd", weights, v[part])
    written = [blank(*each.shape) for each in (tops, sums, out)]
    memrefs = [q, keys, values, pos, table, *written]
    return ZooRun(
        memrefs, {"S": size, "H": HEADS, "P": parts}, dict(enumerate((tops, sums, out), 5))
    )
