"""Calls of `packed_matmul*.mlir`: rows, and packed weights of 4 bits with scale and offset."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lamina.testing.zoo.case import Array, ZooRun, blank, normal

BLOCKS, BLOCK, LANES, TILES = 17, 32, 16, 2
DEPTH, COLUMNS = BLOCKS * BLOCK, TILES * LANES


class _Weight(NamedTuple):
    """A weight as numbers `[N, K]`, and the memrefs that it lies in."""

    numbers: Array
    memrefs: list[Array]


def make(rng: np.random.Generator, size: int) -> ZooRun:
    """Return `size` rows of numbers."""
    weight, x = _weight(rng), normal(rng, size, DEPTH)
    memrefs = [*weight.memrefs, x, blank(size, COLUMNS)]
    return ZooRun(memrefs, {"n0": size}, {4: x.astype(float) @ weight.numbers.T.astype(float)})


def make_split(rng: np.random.Generator, size: int) -> ZooRun:
    """Return `size` rows of numbers, for threads that have columns of K apart."""
    return make(rng, size)


def make_bytes(rng: np.random.Generator, size: int) -> ZooRun:
    """Return `size` rows in quants of 8 bits, with scales and sums of blocks."""
    weight = _weight(rng)
    q = rng.integers(-127, 128, (size, BLOCKS, BLOCK)).astype(np.int8)
    d = (rng.random((size, BLOCKS)) * 0.02).astype(np.float32)
    s = d * q.sum(2, dtype=np.int32).astype(np.float32)
    numbers = (q * d[..., None].astype(float)).reshape(size, DEPTH)
    memrefs = [q.reshape(size, DEPTH), d, s, *weight.memrefs, blank(size, COLUMNS)]
    return ZooRun(memrefs, {"n0": size}, {6: numbers @ weight.numbers.T.astype(float)})


def _weight(rng: np.random.Generator) -> _Weight:
    q = rng.integers(0, 16, (COLUMNS, DEPTH)).astype(np.uint8)
    scale = (rng.random((COLUMNS, BLOCKS)) * 0.1).astype(np.float16)
    offset = (-rng.random((COLUMNS, BLOCKS))).astype(np.float16)
    groups = q.reshape(TILES, LANES, BLOCKS, 4, 2, 4).transpose(0, 2, 3, 4, 1, 5)
    packed = (groups[:, :, :, 0] | groups[:, :, :, 1] << 4).astype(np.uint8).view(np.int8)
    numbers = q.reshape(COLUMNS, BLOCKS, BLOCK) * scale[..., None].astype(np.float32)
    numbers += offset[..., None].astype(np.float32)
    parts = [x.reshape(TILES, LANES, BLOCKS).transpose(0, 2, 1).copy() for x in (scale, offset)]
    return _Weight(numbers.reshape(COLUMNS, DEPTH), [packed, *parts])
