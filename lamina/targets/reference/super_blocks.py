"""Formats of blocks in blocks: 256 neighbours of a row whose scales are small integers.

The layouts are GGML's K-quants. A super-block has one scale, and where it has offsets one unit of
those, in f16; its groups of 32 or 16 have a factor of 6 or 8 bits each. Both products are exact in
f32.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from lamina.targets.reference.dtypes import Array
from lamina.targets.reference.quants import Quants

_GROUPS = 8
"""Groups of 32 in a super-block."""


def _q4_k(blocks: Array) -> Quants:
    """d, dmin, 12 bytes of factors, 128 bytes of which each 32 hold two groups."""
    scale, offset = _scales_and_offsets(blocks)
    return _grouped(_nibbles(blocks[..., 16:]), scale, offset, 0)


def _q5_k(blocks: Array) -> Quants:
    """d, dmin, 12 bytes of factors, 32 bytes whose bit j is the fifth of group j, then as q4_k."""
    scale, offset = _scales_and_offsets(blocks)
    quants = _nibbles(blocks[..., 48:])
    bits = np.arange(_GROUPS, dtype=np.uint8)[:, None]
    quants |= (blocks[..., None, 16:48] >> bits & 1) << 4
    return _grouped(quants, scale, offset, 0)


def _q6_k(blocks: Array) -> Quants:
    """128 bytes of low halves, 64 of pairs of high bits, 16 signed factors of groups of 16, d."""
    lead = blocks.shape[:2]
    low = blocks[..., :128].reshape(*lead, 2, 1, 2, 32)
    low = np.concatenate([low & 15, low >> 4], axis=3)
    shifts = np.arange(0, 8, 2, dtype=np.uint8).reshape(2, 2, 1)
    high = blocks[..., 128:192].reshape(*lead, 2, 1, 1, 32) >> shifts & 3
    factors = blocks[..., 192:208].view(np.int8)
    return _grouped(low | high << 4, _half(blocks, 208) * factors, None, 32)


SUPER_BLOCKS: dict[str, Callable[[Array], Quants]] = {"q4_k": _q4_k, "q5_k": _q5_k, "q6_k": _q6_k}
"""The readers of super-blocks, uint8 [N, K / 256, bytes], by format."""


def _scales_and_offsets(blocks: Array) -> tuple[Array, Array]:
    """Return the scales and offsets of groups of 32: f32 [N, K / 256, 8].

    Four factors of scales lie in the low 6 bits of bytes 0..3 and four of offsets in 4..7; bytes
    8..11 hold the low halves of the last four of both, their high bits on top of the first eight.
    """
    first, second, third = (blocks[..., start : start + 4] for start in (4, 8, 12))
    factors = np.concatenate([first & 63, third & 15 | first >> 6 << 4], axis=-1)
    units = np.concatenate([second & 63, third >> 4 | second >> 6 << 4], axis=-1)
    return _half(blocks, 0) * factors, -_half(blocks, 2) * units


def _nibbles(pairs: Array) -> Array:
    """Return quants [N, K / 256, 8, 32] of bytes [N, K / 256, 128]: low halves, high halves."""
    lead = pairs.shape[:2]
    pairs = pairs.reshape(*lead, _GROUPS // 2, 1, 32)
    return np.concatenate([pairs & 15, pairs >> 4], axis=3).reshape(*lead, _GROUPS, 32)


def _half(blocks: Array, start: int) -> Array:
    """Return a stored f16 as f32 [N, K / 256, 1]."""
    half = np.ascontiguousarray(blocks[..., start : start + 2]).view(np.float16)
    return half.astype(np.float32)


def _grouped(quants: Array, scale: Array, offset: Array | None, zero: int) -> Quants:
    """Return the parts with the groups of a row in one dimension."""
    rows, blocks, groups = scale.shape
    shape = (rows, blocks * groups)
    size = prod(quants.shape[2:]) // groups
    flat = None if offset is None else offset.reshape(shape)
    return Quants(quants.reshape(*shape, size), scale.reshape(shape), flat, zero)
