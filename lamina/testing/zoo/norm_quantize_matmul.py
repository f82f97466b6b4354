"""Calls of `norm_quantize_matmul.mlir`: rows in f32, weights of 4 bits with scale and offset."""

from __future__ import annotations

import numpy as np

from lamina.testing.zoo.case import Array, ZooRun, blank, normal

DEPTH, BLOCK, LANES = 96, 32, 16
BLOCKS = DEPTH // BLOCK


def make(rng: np.random.Generator, size: int) -> ZooRun:
    """Return `size` rows and three tiles of columns."""
    tiles = 3
    columns = tiles * LANES
    x, g = normal(rng, size, DEPTH), normal(rng, DEPTH)
    q = rng.integers(0, 16, (columns, DEPTH)).astype(np.uint8)
    scale = (rng.random((columns, BLOCKS)) * 0.1).astype(np.float16)
    offset = (-rng.random((columns, BLOCKS))).astype(np.float16)
    groups = q.reshape(tiles, LANES, BLOCKS, 4, 2, 4).transpose(0, 2, 3, 4, 1, 5)
    packed = (groups[:, :, :, 0] | groups[:, :, :, 1] << 4).astype(np.uint8).view(np.int8)
    memrefs = [x, g, packed, _lanes(scale, tiles), _lanes(offset, tiles), blank(size, columns)]
    weight = q.reshape(columns, BLOCKS, BLOCK) * scale[..., None].astype(np.float32)
    weight += offset[..., None].astype(np.float32)
    expected = np.einsum("mki,nki->mn", _quantized(x, g), weight)
    return ZooRun(memrefs, {"M": size, "N": columns}, {5: expected})


def _lanes(x: Array, tiles: int) -> Array:
    return x.reshape(tiles, LANES, BLOCKS).transpose(0, 2, 1).copy()


def _quantized(x: Array, g: Array) -> Array:
    """The normalised rows as the 8-bit blocks see them."""
    square = np.square(x).mean(1, keepdims=True, dtype=np.float32)
    h = (x / np.sqrt(square + np.float32(1e-5)) * g).reshape(len(x), BLOCKS, BLOCK)
    scale = np.abs(h).max(-1, keepdims=True) / np.float32(127)
    return np.rint(h / scale) * scale
