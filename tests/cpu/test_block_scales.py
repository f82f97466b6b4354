"""Weights whose scales are odd in any block format: zero, subnormal, infinite, or no number."""

import numpy as np
import pytest
from xdsl.dialects.builtin import f32, i32

from lamina import compiler
from lamina.dialects import quant
from lamina.dialects.block_types import BLOCK_TYPES
from lamina.dialects.nn import EmbeddingOp
from lamina.dialects.quant import BlocksType
from lamina.targets.reference.executable import ReferenceExecutable
from lamina.testing.sheet import Sheet
from lamina.testing.suites.quantised import FORMATS, SCALES, blocks
from lamina.testing.values import below, normal

ODD = (np.inf, -np.inf, np.nan, 0.0, 6e-8, -3e-5)
FINITE = [0, 1, 2, 6, 7, 8, 9, 10, 11, 15, 16]
"""The rows that the odd scales leave finite."""
ROWS = 17
Outputs = dict[str, np.ndarray]


def weight(format: str) -> np.ndarray:
    """Rows of blocks: from the third on, each has a first block with an odd scale, then offset."""
    place, _, other, has_offset = SCALES[format]
    rows, size = blocks(format, ROWS, depth(format), seed=1), BLOCK_TYPES[format].bytes
    for n, scale in enumerate(ODD):
        rows[3 + n, place : place + 2] = np.float16([scale]).view(np.uint8)
        if has_offset:
            rows[12 + n % 4, other : other + 2] = np.float16([ODD[n % 4]]).view(np.uint8)
    rows[10], rows[11, size:] = 0, 0
    return rows


def depth(format: str) -> int:
    return 2 * BLOCK_TYPES[format].elements


def module(format: str) -> Sheet:
    """Products of 8-bit rows with the weight, and its rows as numbers."""
    sheet, columns = Sheet(), depth(format)
    q = quant.QuantizeOp(sheet.given("x", f32, ["N", columns], normal))
    ids = sheet.given("ids", i32, ["N"], below(ROWS))
    sheet.add(q)
    w = sheet.stored("w", weight(format), BlocksType.of(format, ROWS, columns))
    sheet.compute("linear", quant.LinearOp([w], (q.q, q.d, q.s), ROWS))
    sheet.compute("numbers", EmbeddingOp(w, ids, columns))
    return sheet


def inputs(format: str) -> Outputs:
    """Rows of numbers around 0, 1, 1e-30, 1e5 and 1e30, and every row of the weight."""
    x = np.random.default_rng(2).standard_normal((ROWS, depth(format)))
    sizes = np.resize([0, 1, 1e-30, 1e5, 1e30], (ROWS, 1))
    return {"x": (x * sizes).astype(np.float32), "ids": np.arange(ROWS, dtype=np.int32)}


def meant(format: str) -> Outputs:
    sheet = module(format)
    return ReferenceExecutable(sheet.module, sheet.weights)(**inputs(format))


@pytest.mark.parametrize("spec", ["cpu", 'cpu{features="generic"}'])
@pytest.mark.parametrize("format", FORMATS)
def test_odd_scales_give_the_bits_of_the_reference(format: str, spec: str) -> None:
    sheet = module(format)
    found = compiler.compile(sheet.module, spec, weights=sheet.weights, threads=1)
    for name, values in found(**inputs(format)).items():
        np.testing.assert_array_equal(values, meant(format)[name])


@pytest.mark.parametrize("format", FORMATS)
def test_a_scale_that_is_no_number_spoils_its_own_row_alone(format: str) -> None:
    found, rows = meant(format), FINITE if SCALES[format][3] else [*FINITE, 12, 13, 14]
    assert np.isfinite(found["numbers"]).all(1).nonzero()[0].tolist() == sorted(rows)
    assert np.isfinite(found["linear"]).all(0).nonzero()[0].tolist() == sorted(rows)


@pytest.mark.parametrize("format", FORMATS)
def test_large_activations_are_summed_in_f32(format: str) -> None:
    found, x = meant(format)["linear"][:, FINITE], inputs(format)["x"].astype(float)
    numbers = meant(format)["numbers"][FINITE].astype(float)
    exact, size = x @ numbers.T, abs(x) @ abs(numbers).T
    assert (abs(found - exact) <= 0.02 * size).all()
    assert abs(found[4]).max() > 1e29
