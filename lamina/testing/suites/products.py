"""Cases of products: any two tensors, weights, windows; and attention."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from xdsl.dialects.builtin import FloatAttr, UnitAttr, f16, f32, f64, i8, i64
from xdsl.ir import Attribute

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import ui8
from lamina.targets.reference.dtypes import Array
from lamina.testing.case import Case
from lamina.testing.sheet import Sheet
from lamina.testing.values import edges, normal, unit

N, M, K = (Dim.symbol(name) for name in "NMK")
SIZES = (0, 1, 3, 31)

PRODUCT = 3e-5
"""The tolerance of sums of some dozen products of numbers around 1."""


def cases() -> Iterator[Case]:
    """Yield the cases of products."""
    yield Case("products", _products, SIZES)
    yield Case("products-of-weights", _weights, (0, 1, 3, 31))
    yield Case("products-of-narrow", _narrow, SIZES)
    yield Case("rotations", _rotations, SIZES)
    yield Case("attentions", _attentions, SIZES)


def numbers(seed: int, *shape: int) -> Array:
    """Return the values of a weight: normal, of a size that products keep."""
    rng = np.random.default_rng(seed)
    return rng.normal(0, shape[-1] ** -0.5, shape).astype(np.float32)


def _products(sheet: Sheet) -> None:
    a = sheet.given("a", f32, ["N", "K"], normal)
    b = sheet.given("b", f32, [17, "K"], normal)
    c = sheet.given("c", f32, ["K", "M"], normal)
    d = sheet.given("d", f32, [3, "N", 24], normal)
    e = sheet.given("e", f32, [3, "M", 24], normal)
    v = sheet.given("v", f32, ["K"], normal)
    q = sheet.given("q", f32, ["M", 2, "N", 8], normal)
    k = sheet.given("k", f32, ["M", 5, 2, 8], normal)
    none = sheet.given("none", f32, ["N", 0], normal)
    for name, op in (
        ("rows_by_rows", nn.DotGeneralOp(a, b, [(1, 1)])),
        ("rows_by_columns", nn.DotGeneralOp(a, c, [(1, 0)])),
        ("columns_by_columns", nn.DotGeneralOp(c, c, [(0, 0)])),
        ("batches", nn.DotGeneralOp(d, e, [(2, 2)], [(0, 0)])),
        ("heads", nn.DotGeneralOp(q, k, [(3, 3)], [(0, 0), (1, 2)])),
        ("by_a_vector", nn.DotGeneralOp(a, v, [(1, 0)])),
        ("of_a_vector", nn.DotGeneralOp(v, a, [(0, 1)])),
        ("of_vectors", nn.DotGeneralOp(v, v, [(0, 0)])),
        ("outer", nn.DotGeneralOp(v, v, [])),
        ("of_no_depth", nn.DotGeneralOp(none, none, [(1, 1)])),
        ("two_pairs", nn.DotGeneralOp(d, e, [(0, 0), (2, 2)])),
    ):
        sheet.compute(name, op, atol=PRODUCT)


def _weights(sheet: Sheet) -> None:
    x = sheet.given("x", f32, ["N", 40], normal)
    cube = sheet.given("cube", f32, ["N", 2, 40], normal)
    wide = sheet.stored("wide", numbers(1, 96, 40))
    odd = sheet.stored("odd", numbers(2, 17, 40))
    tall = sheet.stored("tall", numbers(3, 40, 32))
    half = sheet.stored("half", numbers(4, 32, 40).astype(np.float16))
    widened = sheet.add(nn.CastOp(half, f32))
    whole = sheet.stored("whole", (9 * numbers(5, 17, 40)).astype(np.int8))
    bytes = sheet.stored("bytes", (99 * np.abs(numbers(6, 40, 33))).astype(np.uint8))
    codes = sheet.given("codes", ui8, ["N", 40], edges)
    for name, op in (
        ("rows", nn.DotGeneralOp(x, wide, [(1, 1)])),
        ("padded", nn.DotGeneralOp(x, odd, [(1, 1)])),
        ("columns", nn.DotGeneralOp(x, tall, [(1, 0)])),
        ("of_halves", nn.DotGeneralOp(x, widened, [(1, 1)])),
        ("of_integers", nn.DotGeneralOp(x, sheet.add(nn.CastOp(whole, f32)), [(1, 1)])),
        ("with_integers", nn.DotGeneralOp(codes, bytes, [(1, 0)])),
        ("of_cubes", nn.DotGeneralOp(cube, odd, [(2, 1)])),
        ("weight_first", nn.DotGeneralOp(wide, x, [(1, 1)])),
    ):
        sheet.compute(name, op, atol=PRODUCT)


def _narrow(sheet: Sheet) -> None:
    a = sheet.given("a", i8, ["N", 40], edges)
    b = sheet.given("b", i8, [9, 40], edges)
    c = sheet.given("c", f16, ["N", 40], unit)
    d = sheet.given("d", f16, [9, 40], unit)
    e = sheet.given("e", f64, ["N", 40], unit)
    sheet.compute("doubles", nn.DotGeneralOp(e, e, [(1, 1)]), atol=1e-12)
    sheet.compute("bytes", nn.DotGeneralOp(a, b, [(1, 1)]))
    f = sheet.given("f", ui8, ["M", 9], edges)
    g = sheet.given("g", i64, [3, "N", 5], edges)
    h = sheet.given("h", i64, [3, 5, 33], edges)
    sheet.compute("unsigned_by_signed", nn.DotGeneralOp(f, b, [(1, 0)]))
    sheet.compute("long", nn.DotGeneralOp(g, h, [(2, 1)], [(0, 0)]))
    sheet.compute("long_over_two", nn.DotGeneralOp(h, g, [(0, 0), (1, 2)]))
    sheet.compute("doubles_by_columns", nn.DotGeneralOp(e, e, [(0, 0)]), atol=1e-12)
    sheet.compute("halves", nn.DotGeneralOp(c, d, [(1, 1)]), atol=PRODUCT)


def _rotations(sheet: Sheet) -> None:
    x = sheet.given("x", f32, ["N", 3, 16], normal)
    for part, width in (("whole", 8), ("half", 4)):
        cos, sin = (sheet.given(f"{f}_{part}", f32, ["N", width], unit) for f in ("cos", "sin"))
        for name, interleaved in (("halves", False), ("pairs", True)):
            op = nn.RopeOp(x, cos, sin, interleaved=interleaved)
            sheet.compute(f"{name}_{part}", op, atol=1e-6)


def _attentions(sheet: Sheet) -> None:
    q = sheet.given("q", f32, ["M", 4, 3, 16], normal)
    k, v = (sheet.given(name, f32, ["M", 2, "N + 3", 16], normal) for name in "kv")
    mask = sheet.given("mask", f32, ["M", "N + 3"], normal)
    for name, masked, causal in (
        ("plain", False, False),
        ("masked", True, False),
        ("causal", False, True),
    ):
        properties: dict[str, Attribute] = {"scale": FloatAttr(0.25, f32)}
        properties |= {"causal": UnitAttr()} if causal else {}
        op = nn.AttentionOp(
            operands=[q, k, v, [mask] if masked else []],
            properties=properties,
            result_types=[q.type],
        )
        sheet.compute(name, op, atol=1e-5)
