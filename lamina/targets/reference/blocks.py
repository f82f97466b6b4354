"""Block formats of files as quants, scales and offsets.

The layouts are GGML's: a block is 32 neighbours of a row, its scale (f16) first, then its offset
where it has one, then the fifth bits where it has them, then the quants. 4-bit quants lie as
elements 0..15 in the low halves of 16 bytes and 16..31 in the high ones. Super-blocks of 256 have
readers of their own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lamina.dialects.block_types import BLOCK_TYPES
from lamina.errors import LoweringError
from lamina.targets.reference.dtypes import Array
from lamina.targets.reference.quants import Quants, values_of
from lamina.targets.reference.super_blocks import SUPER_BLOCKS

BLOCK = 32


@dataclass(frozen=True)
class _Layout:
    bits: int
    zero: int
    offset: bool = False


_LAYOUTS: dict[str, _Layout] = {
    "q4_0": _Layout(bits=4, zero=8),
    "q4_1": _Layout(bits=4, zero=0, offset=True),
    "q5_0": _Layout(bits=5, zero=16),
    "q5_1": _Layout(bits=5, zero=0, offset=True),
    "q8_0": _Layout(bits=8, zero=128),
}
"""The formats that can be taken apart; q8_0 stores signed quants, here 128 larger."""


def take_apart(format: str, rows: Array) -> Quants:
    """Return the parts of rows of blocks, uint8 [N, bytes]; LoweringError names a format."""
    if format not in _LAYOUTS and format not in SUPER_BLOCKS:
        raise LoweringError(f"reference cannot read blocks of {format}")
    size = BLOCK_TYPES[format].bytes
    blocks = rows.reshape(len(rows), rows.shape[1] // size, size)
    if format in SUPER_BLOCKS:
        return SUPER_BLOCKS[format](blocks)
    layout = _LAYOUTS[format]
    scale = _half(blocks, 0)
    offset = _half(blocks, 2) if layout.offset else None
    start = 4 if layout.offset else 2
    if layout.bits == 8:
        return Quants(blocks[..., start:] ^ np.uint8(128), scale, offset, layout.zero)
    halves = blocks[..., size - BLOCK // 2 :]
    quants = np.empty((*blocks.shape[:2], 2, BLOCK // 2), np.uint8)
    np.bitwise_and(halves, 15, out=quants[..., 0, :])
    np.right_shift(halves, 4, out=quants[..., 1, :])
    quants = quants.reshape(*blocks.shape[:2], BLOCK)
    if layout.bits == 5:
        high = np.unpackbits(blocks[..., start : start + 4], axis=-1, bitorder="little")
        quants |= high << 4
    return Quants(quants, scale, offset, layout.zero)


def dequantized(format: str, rows: Array) -> Array:
    """Return rows of blocks, uint8 [N, bytes], as f32 [N, K]."""
    return values_of(take_apart(format, rows))


def _half(blocks: Array, start: int) -> Array:
    return np.ascontiguousarray(blocks[..., start : start + 2]).view(np.float16)[..., 0]
