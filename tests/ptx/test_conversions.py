"""Conversions against NumPy and exact arithmetic."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from exact_floats import BF16, draw, rounded, same
from launching import compute

INTEGERS = {
    "s8": "i1",
    "u8": "u1",
    "s16": "i2",
    "u16": "u2",
    "s32": "i4",
    "u32": "u4",
    "s64": "i8",
    "u64": "u8",
}


def clamped(x: float, dtype: np.dtype, source: str, integral) -> int:
    info = np.iinfo(dtype)
    if math.isnan(x):
        wide = dtype.itemsize == 8 or source == "f64"
        return (info.min if dtype.kind == "i" else 1 << 8 * dtype.itemsize - 1) if wide else 0
    return max(info.min, min(info.max, x if math.isinf(x) else integral(x)))


@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
@pytest.mark.parametrize("result", INTEGERS)
@pytest.mark.parametrize("source", ["f16", "f32", "f64"])
def test_a_float_becomes_an_integer_that_is_clamped(source: str, result: str, mode: str) -> None:
    a = draw({"f16": "f2", "f32": "f4", "f64": "f8"}[source], 1, 128)
    dtype = np.dtype(INTEGERS[result])
    y = compute(f"cvt.{mode}.{result}.{source} %y, %a;", dtype, a)
    integral = {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}[mode]
    wanted = [clamped(float(x), dtype, source, integral) for x in a]
    assert y.tolist() == [
        int(min(max(w, np.iinfo(dtype).min), np.iinfo(dtype).max)) for w in wanted
    ]


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("source", ["s32", "u32", "s64", "u64", "u16"])
def test_an_integer_becomes_a_float_rounded_once(source: str, mode: str) -> None:
    rng = np.random.default_rng(2)
    dtype = np.dtype(INTEGERS[source])
    bits = 8 * dtype.itemsize
    numbers = [
        int(x) >> int(s)
        for x, s in zip(rng.integers(1, 2**63, 120), rng.integers(0, 60, 120), strict=True)
    ]
    edges = [2**24 + 1, 2**25 + 3, 2**31, 2**53 + 1, 2**62 + 2**38 + 1, 2**63 - 1]
    a = np.array([n & ((1 << bits) - 1) for n in numbers + edges], f"u{bits // 8}").view(dtype)
    y = compute(f"cvt.{mode}.f32.{source} %y, %a;", "f4", a)
    assert y.tolist() == [rounded(Fraction(int(x)), mode) if x else 0 for x in a]


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("result", ["f16", "bf16"])
def test_a_float_is_narrowed_in_every_mode(result: str, mode: str) -> None:
    a = draw("f4", 3)
    dtype = np.dtype("f2") if result == "f16" else BF16
    y = compute(f"cvt.{mode}.{result}.f32 %y, %a;", dtype, a, target="sm_90")
    with np.errstate(all="ignore"):
        near = a.astype(dtype)
        back = near.astype("f4")
        bits = near.view("i2")
        away = {
            "rn": np.zeros(len(a), bool),
            "rz": np.abs(back) > np.abs(a),
            "rm": back > a,
            "rp": back < a,
        }[mode] & np.isfinite(a)
        smaller = {"rn": True, "rz": True, "rm": ~np.signbit(near), "rp": np.signbit(near)}[mode]
        moved = bits + np.where(smaller, -1, 1).astype("i2")
    assert same(y, np.where(away, moved, bits).astype("i2").view(dtype))


@pytest.mark.parametrize("result", ["f16x2", "bf16x2"])
def test_two_floats_become_a_word_with_the_first_above(result: str) -> None:
    a, b = draw("f4", 4), draw("f4", 5)
    dtype = np.dtype("f2") if result == "f16x2" else BF16
    y = compute(f"cvt.rn.{result}.f32 %y, %a, %b;", "u4", a, b).view(dtype)
    with np.errstate(all="ignore"):
        assert same(y[1::2].copy(), a.astype(dtype))
        assert same(y[::2].copy(), b.astype(dtype))


def test_relu_while_narrowing_keeps_what_is_positive() -> None:
    a = np.array([-1, 2, -0.0, np.inf], "f4")
    y = compute("cvt.rn.relu.f16x2.f32 %y, %a, %a;", "u4", a).view("f2")
    assert y.tolist() == [0, 0, 2, 2, 0, 0, math.inf, math.inf]


@pytest.mark.parametrize(
    ("name", "dtype", "largest"),
    [("e4m3x2", ml_dtypes.float8_e4m3fn, 448), ("e5m2x2", ml_dtypes.float8_e5m2, 57344)],
)
def test_floats_become_eight_bits_and_come_back(name: str, dtype: type, largest: float) -> None:
    a = np.array([0.1, -3.3, 1e9, -1e9, 1e-9, 17.0, 449.0, 0.0], "f4")
    y = compute(
        f"cvt.rn.satfinite.{name}.f32 %h0, %a, %a; cvt.rn.f16x2.{name} %y, %h0;",
        "u4",
        a,
        target="sm_90",
    ).view("f2")
    wanted = np.clip(a, -largest, largest).astype(dtype).astype("f2")
    assert y[::2].tolist() == y[1::2].tolist() == wanted.tolist()


def test_tf32_keeps_ten_bits() -> None:
    a = np.array([1 + 2**-11, 1 + 2**-12, -(1 + 3 * 2**-11), np.inf], "f4")
    y = compute("cvt.rna.tf32.f32 %y, %a;", "f4", a)
    assert y.tolist() == [1 + 2**-10, 1, -(1 + 2**-9), math.inf]


@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
def test_a_float_is_made_integral(mode: str) -> None:
    a = draw("f4", 6)
    y = compute(f"cvt.{mode}.f32.f32 %y, %a;", "f4", a)
    function = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[mode]
    assert same(y, function(a))


def test_a_double_is_narrowed_once() -> None:
    a = np.array([1 + 2**-24 + 2**-50, 1e-310, 1e300, np.nan, 2.0**-150], "f8")
    y = compute("cvt.rn.f32.f64 %y, %a;", "f4", a)
    with np.errstate(all="ignore"):
        assert same(y, a.astype("f4"))


@pytest.mark.parametrize(
    ("form", "dtype"),
    [("u32.u8", "u1"), ("s32.s8", "i1"), ("s64.s32", "i4"), ("u64.u32", "u4"), ("s32.s16", "i2")],
)
def test_integers_are_widened_by_their_sign(form: str, dtype: str) -> None:
    a = np.random.default_rng(7).integers(0, 256, 64).astype("u1").view("i1").astype(dtype)
    y = compute(f"cvt.{form} %y, %a;", "i8" if "64" in form else "i4", a)
    assert y.tolist() == a.astype("i8").tolist()


@pytest.mark.parametrize(
    ("form", "source", "result"),
    [
        ("s8.s32", "i4", "i1"),
        ("u8.s32", "i4", "u1"),
        ("s16.u32", "u4", "i2"),
        ("u32.s64", "i8", "u4"),
        ("s32.s64", "i8", "i4"),
    ],
)
def test_saturation_clamps_integers(form: str, source: str, result: str) -> None:
    rng = np.random.default_rng(8)
    a = np.concatenate(
        [rng.integers(-300, 300, 60).astype(source), np.array([2**31 - 1, -(2**31)]).astype(source)]
    )
    y = compute(f"cvt.sat.{form} %y, %a;", result, a)
    info = np.iinfo(result)
    assert y.tolist() == [min(max(int(x), info.min), info.max) for x in a]


def test_packing_saturates_two_integers() -> None:
    a, b = np.array([300, -5, 7], "i4"), np.array([-300, 255, 9], "i4")
    c = np.array([0x1122, 0, 0xFFFF], "u4")
    y = compute("cvt.pack.sat.u8.s32.b32 %y, %a, %b, %c;", "u4", a, b, c)
    assert y.tolist() == [0x1122FF00, 0x000000FF, 0xFFFF0709]
