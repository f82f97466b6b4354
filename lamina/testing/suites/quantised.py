"""Cases of weights in blocks and of 8-bit activations, for every block format."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from lamina.dialects import nn, quant
from lamina.dialects.block_types import BLOCK_TYPES
from lamina.dialects.quant import BlocksType
from lamina.targets.reference.dtypes import Array
from lamina.testing.case import Case
from lamina.testing.sheet import Sheet
from lamina.testing.values import always, below, gaps, near, normal

FORMATS = ("q4_0", "q4_1", "q4_k", "q5_0", "q5_1", "q5_k", "q6_k", "q8_0")
SCALES = {
    "q4_0": (0, 8, 0, 0),
    "q4_1": (0, 8, 2, -8),
    "q4_k": (0, 500, 2, 8),
    "q5_0": (0, 16, 0, 0),
    "q5_1": (0, 16, 2, -16),
    "q5_k": (0, 1000, 2, 16),
    "q6_k": (208, 4000, 0, 0),
    "q8_0": (0, 128, 0, 0),
}
"""Where the scale is, how many of it a number may be, where the offset is and its size in it."""
SIZES = (0, 1, 3, 31)

EIGHT_BITS = 0.06
"""How far a product of numbers around 1 may be off where a target makes its activations 8-bit."""

A_QUANT = 5e-5
"""What one quant of a second term may add up to: a ratio at a half may be rounded either way."""


def cases() -> Iterator[Case]:
    """Yield a case for each block format, and one of 8-bit activations."""
    for format in FORMATS:
        yield Case(f"blocks-{format}", partial(_blocks, format), SIZES)
    yield Case("activations", _activations, SIZES)


def blocks(format: str, rows: int, columns: int, seed: int) -> Array:
    """Return the bytes of a random weight of about `columns ** -0.5`: uint8 [rows, bytes]."""
    rng, kind = np.random.default_rng(seed), BLOCK_TYPES[format]
    count = columns // kind.elements
    found = rng.integers(0, 256, (rows, count, kind.bytes), np.uint8)
    place, largest, other, ratio = SCALES[format]
    scale = columns**-0.5 * rng.uniform(1, 2, (rows, count, 1)) / largest
    found[..., place : place + 2] = scale.astype(np.float16).view(np.uint8)
    if ratio:
        found[..., other : other + 2] = (ratio * scale).astype(np.float16).view(np.uint8)
    return found.reshape(rows, count * kind.bytes)


def stored(sheet: Sheet, name: str, format: str, rows: int, columns: int) -> SSAValue:
    """Declare a random weight of blocks."""
    kind = BlocksType.of(format, rows, columns)
    return sheet.stored(name, blocks(format, rows, columns, rows), kind)


def _blocks(format: str, sheet: Sheet) -> None:
    depth = max(64, BLOCK_TYPES[format].elements)
    x = sheet.given("x", f32, ["N", depth], normal)
    ids = sheet.given("ids", i32, ["N"], below(40))
    q = quant.QuantizeOp(x)
    sheet.add(q)
    left = (q.q, q.d, q.s)
    for rows in (96, 32, 17):
        w = stored(sheet, f"w{rows}", format, rows, depth)
        sheet.compute(f"linear_{rows}", quant.LinearOp([w], left, rows), atol=1e-5)
    two = quant.QuantizeOp(x, 2)
    sheet.add(two)
    w = stored(sheet, "w33", format, 33, depth)
    linear = quant.LinearOp([w], (two.q, two.d, two.s), 33)
    sheet.compute("linear_of_two_terms", linear, atol=A_QUANT)
    w = stored(sheet, "w", format, 40, depth)
    numbers = sheet.add(quant.DequantizeOp([w], 40, depth))
    dot = nn.DotGeneralOp(x, numbers, [(1, 1)])
    sheet.compute("of_numbers", dot, atol=EIGHT_BITS, of="quant.dequantize")
    sheet.compute("embedding", nn.EmbeddingOp(w, ids, depth), atol=1e-6)


def _activations(sheet: Sheet) -> None:
    tiny = near(0.0, 1e-43)
    draws = {"plain": normal, "gaps": gaps, "zeros": always(0.0), "tiny": tiny}
    for name, draw in draws.items():
        op = quant.QuantizeOp(sheet.given(name, f32, ["N", 96], draw))
        sheet.compute(f"q_{name}", op)
        sheet.check(f"d_{name}", op.d)
        sheet.check(f"s_{name}", op.s)
        two = quant.QuantizeOp(op.x, 2)
        sheet.add(two)
        sheet.check(f"d_of_two_{name}", two.d, rtol=2e-5)
