"""Floating-point instructions against exact arithmetic, over special values and in every mode."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from exact_floats import BF16, draw, rounded, same
from launching import compute

OPERATIONS: dict[str, Callable[[Fraction, Fraction, Fraction], Fraction]] = {
    "add": lambda a, b, c: a + b,
    "sub": lambda a, b, c: a - b,
    "mul": lambda a, b, c: a * b,
    "div": lambda a, b, c: a / b,
    "fma": lambda a, b, c: a * b + c,
}


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_a_result_is_the_exact_one_rounded_once(name: str, mode: str) -> None:
    a, b, c = (draw("f4", seed) for seed in (1, 2, 3))
    sources = "%a, %b, %c" if name == "fma" else "%a, %b"
    y = compute(f"{name}.{mode}.f32 %y, {sources};", "f4", a, b, c)
    with np.errstate(all="ignore"):
        usual = np.isfinite(a) & np.isfinite(b) & np.isfinite(c) & (b != 0)
    for place in np.flatnonzero(usual):
        exact = OPERATIONS[name](*(Fraction(float(x[place])) for x in (a, b, c)))
        if exact:
            assert y[place] == rounded(exact, mode), (a[place], b[place], c[place])


@pytest.mark.parametrize("kind", ["f32", "f64", "f16", "bf16"])
@pytest.mark.parametrize("name", ["add", "mul", "sub"])
def test_special_values_go_through_arithmetic(kind: str, name: str) -> None:
    dtype = {"f32": "f4", "f64": "f8", "f16": "f2", "bf16": BF16}[kind]
    a, b = draw(dtype, 4), draw(dtype, 5)
    rounding = "" if kind in ("f16", "bf16") else ".rn"
    y = compute(f"{name}{rounding}.{kind} %y, %a, %b;", dtype, a, b, target="sm_90")
    wide = "f8" if kind == "f64" else "f4"
    operation = {"add": np.add, "mul": np.multiply, "sub": np.subtract}[name]
    with np.errstate(all="ignore"):
        assert same(y, operation(a.astype(wide), b.astype(wide)).astype(dtype))


@pytest.mark.parametrize("kind", ["f16x2", "bf16x2"])
def test_packed_halves_are_computed_apart(kind: str) -> None:
    dtype = np.dtype("f2") if kind == "f16x2" else BF16
    a, b, c = (draw(dtype, seed, 512) for seed in (6, 7, 8))
    words = [x.view("u4") for x in (a, b, c)]
    y = compute(f"fma.rn.{kind} %y, %a, %b, %c;", "u4", *words).view(dtype)
    with np.errstate(all="ignore"):
        wide = a.astype("f8") * b.astype("f8") + c.astype("f8")
        near = wide.astype("f4").astype(dtype) if dtype == BF16 else wide.astype(dtype)
        assert ((y == near) | (np.isnan(y) & np.isnan(near))).mean() > 0.99


@pytest.mark.parametrize("mode", ["rn", "rz"])
@pytest.mark.parametrize("name", ["add", "mul", "fma"])
def test_pairs_of_floats_are_computed_apart(name: str, mode: str) -> None:
    sources, packed = (
        "%a, %b, %c" if name == "fma" else "%a, %b",
        [draw("f4", n, 512) for n in (6, 7, 8)],
    )
    alone = compute(f"{name}.{mode}.f32 %y, {sources};", "f4", *packed)
    words = [x.view("u8") for x in packed]
    pairs = compute(f"{name}.{mode}.f32x2 %y, {sources};", "u8", *words)
    assert same(pairs.view("f4"), alone)


def test_a_fused_product_is_rounded_once_in_f16() -> None:
    a = np.array([1.0009766], "f2")
    c = np.array([-1.0], "f2")
    y = compute("fma.rn.f16 %y, %a, %b, %c;", "f2", a, a, c)
    assert y[0] == np.float16(float(a[0]) ** 2 - 1)


@pytest.mark.parametrize(
    ("kind", "nan"), [("f32", ""), ("f64", ""), ("f16", ""), ("f32", ".NaN"), ("f16", ".NaN")]
)
def test_extremes_order_zeros_and_treat_nan_as_told(kind: str, nan: str) -> None:
    dtype = {"f32": "f4", "f64": "f8", "f16": "f2"}[kind]
    a, b = draw(dtype, 9), draw(dtype, 10)
    least = compute(f"min{nan}.{kind} %y, %a, %b;", dtype, a, b)
    greatest = compute(f"max{nan}.{kind} %y, %a, %b;", dtype, a, b)
    order = np.where(a == b, np.signbit(a), a < b)
    low, high = np.where(order, a, b), np.where(order, b, a)
    for x, y in ((a, b), (b, a)):
        lost = y if nan else x
        low, high = np.where(np.isnan(y), lost, low), np.where(np.isnan(y), lost, high)
    both = np.isnan(a) & np.isnan(b)
    any_nan = np.isnan(a) | np.isnan(b)
    wrong = any_nan if nan else both
    low, high = np.where(wrong, np.nan, low), np.where(wrong, np.nan, high)
    assert same(least, low.astype(dtype))
    assert same(greatest, high.astype(dtype))


FUNCTIONS = {
    "ex2.approx.f32": np.exp2,
    "lg2.approx.f32": np.log2,
    "sqrt.rn.f32": np.sqrt,
    "rsqrt.approx.f32": lambda x: 1 / np.sqrt(x),
    "rcp.rn.f32": lambda x: 1 / x,
    "sin.approx.f32": np.sin,
    "cos.approx.f32": np.cos,
    "tanh.approx.f32": np.tanh,
    "neg.f32": np.negative,
    "abs.f32": np.abs,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_ideal(name: str) -> None:
    a = draw("f4", 11)
    y = compute(f"{name} %y, %a;", "f4", a)
    with np.errstate(all="ignore"):
        assert same(y, FUNCTIONS[name](a.astype("f8")).astype("f4"))


def test_ftz_flushes_what_comes_in_and_what_goes_out() -> None:
    a = np.array([1e-40, -1e-40, 1e-30, 1.5e-38], "f4")
    b = np.array([1.0, 1.0, 1e-9, 0.5], "f4")
    y = compute("mul.rn.ftz.f32 %y, %a, %b;", "f4", a, b)
    assert y.view("u4").tolist() == [0, 0x80000000, 0, 0]


def test_sat_clamps_and_turns_nan_to_zero() -> None:
    a = np.array([-1.0, 0.25, 7.0, np.nan, np.inf], "f4")
    y = compute("add.rn.sat.f32 %y, %a, 0f00000000;", "f4", a)
    assert y.tolist() == [0, 0.25, 1, 0, 1]


RELATIONS = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: (a != b) & ~np.isnan(a) & ~np.isnan(b),
    "lt": lambda a, b: a < b,
    "ge": lambda a, b: a >= b,
    "equ": lambda a, b: (a == b) | np.isnan(a) | np.isnan(b),
    "neu": lambda a, b: a != b,
    "ltu": lambda a, b: (a < b) | np.isnan(a) | np.isnan(b),
    "geu": lambda a, b: (a >= b) | np.isnan(a) | np.isnan(b),
    "num": lambda a, b: ~np.isnan(a) & ~np.isnan(b),
    "nan": lambda a, b: np.isnan(a) | np.isnan(b),
}


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_comparison_of_floats_says_what_nan_does(relation: str) -> None:
    a, b = draw("f4", 12), draw("f4", 13)
    body = f"setp.{relation}.f32 %p0|%p1, %a, %b; selp.u32 %x0, 1, 0, %p0; selp.u32 %x1, 2, 0, %p1; or.b32 %y, %x0, %x1;"
    y = compute(body, "u4", a, b)
    assert y.tolist() == np.where(RELATIONS[relation](a, b), 1, 2).tolist()


def test_a_comparison_is_joined_with_a_predicate() -> None:
    a = np.arange(-4, 4).astype("i4")
    body = "setp.gt.s32 %p0, %a, 2; setp.lt.or.s32 %p1, %a, -2, %p0; selp.b32 %y, 5, 6, %p1;"
    assert compute(body, "u4", a).tolist() == [5, 5, 6, 6, 6, 6, 6, 5]


def test_set_gives_all_ones_or_one() -> None:
    a = np.array([1, 5], "f4")
    assert compute("set.gt.u32.f32 %y, %a, 0f40000000;", "u4", a).tolist() == [0, 0xFFFFFFFF]
    assert compute("set.gt.f32.f32 %y, %a, 0f40000000;", "f4", a).tolist() == [0, 1]


def test_copysign_takes_the_sign_of_its_first_operand() -> None:
    a, b = np.array([-0.0, 3], "f4"), np.array([2, -5], "f4")
    assert compute("copysign.f32 %y, %a, %b;", "f4", a, b).tolist() == [-2, 5]


def test_testp_classifies() -> None:
    a = np.array([1, 1e-40, np.inf, np.nan, 0], "f4")
    body = "testp.subnormal.f32 %p0, %a; testp.finite.f32 %p1, %a; selp.b32 %x0, 1, 0, %p0; selp.b32 %x1, 2, 0, %p1; or.b32 %y, %x0, %x1;"
    assert compute(body, "u4", a).tolist() == [2, 3, 0, 0, 2]
