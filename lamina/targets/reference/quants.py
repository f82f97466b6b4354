"""A weight taken apart: quants, and the scales and offsets that groups of them share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lamina.targets.reference.dtypes import Array


class Quants(NamedTuple):
    """A weight taken apart: value = scale * (quant - zero) + offset, in groups of g columns.

    `quants` uint8 [N, K / g, g]; `scale`, and `offset` if any, f16 or f32 [N, K / g].
    """

    quants: Array
    scale: Array
    offset: Array | None
    zero: int


def values_of(parts: Quants) -> Array:
    """Return the numbers that quants, scales and offsets stand for: f32 [N, K]."""
    numbers = parts.quants.astype(np.float32)
    numbers -= np.float32(parts.zero)
    numbers *= parts.scale[..., None].astype(np.float32, copy=False)
    if parts.offset is not None:
        numbers += parts.offset[..., None].astype(np.float32, copy=False)
    rows, groups, size = numbers.shape
    return numbers.reshape(rows, groups * size)
