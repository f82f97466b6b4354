"""Functions of f32 as machine code, against float64: sampled over all bit patterns, and at edges."""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import f32, f64
from xdsl.parser import Parser

import lamina
from lamina.dialects import nn
from lamina.passes import polynomials
from lamina.passes.decompose_math import decompose_functions
from lamina.testing.kernels import context
from lamina.testing.sheet import Sheet
from lamina.testing.values import normal

Function = Callable[[Any], Any]


def erf(x: Any) -> Any:
    return np.fromiter(map(math.erf, x.tolist()), np.float64, len(x))


FUNCTIONS: dict[str, tuple[type[Any], Function, float]] = {
    "exp": (nn.ExpOp, np.exp, 2),
    "log": (nn.LogOp, np.log, 2),
    "rsqrt": (nn.RsqrtOp, lambda x: 1 / np.sqrt(x), 2),
    "tanh": (nn.TanhOp, np.tanh, 2),
    "erf": (nn.ErfOp, erf, 2),
    "sin": (nn.SinOp, np.sin, 2),
    "cos": (nn.CosOp, np.cos, 2),
    "sigmoid": (nn.SigmoidOp, lambda x: 1 / (1 + np.exp(-x)), 2),
}
"""The operation, its meaning in float64, and how many units in the last place it may be off."""

SELDOM: dict[str, tuple[type[Any], Function, float]] = {
    "tan": (nn.TanOp, np.tan, 4),
    "asin": (nn.AsinOp, np.arcsin, 2),
    "acos": (nn.AcosOp, np.arccos, 2),
    "atan": (nn.AtanOp, np.arctan, 2),
    "sinh": (nn.SinhOp, np.sinh, 2),
    "cosh": (nn.CoshOp, np.cosh, 2),
    "asinh": (nn.AsinhOp, np.arcsinh, 2),
    "acosh": (nn.AcoshOp, np.arccosh, 4),
    "atanh": (nn.AtanhOp, np.arctanh, 4),
    "softplus": (nn.SoftplusOp, lambda x: np.logaddexp(x, 0), 4),
}
"""The same for functions that fewer samples are spent on."""

ALL = FUNCTIONS | SELDOM

ANGLE = 2.0**17
"""Up to where sines and cosines are accurate."""

SAMPLES = {"auto": 1 << 22, "generic": 1 << 18}
"""How many of all bit patterns are tried, one at random of each of so many equal stretches."""

NEAR = 64
"""Floats on either side of a point."""

LN2, HALF_PI = math.log(2), math.pi / 2
EVERYWHERE = [0.0, 2.0**-149, 2.0**-126, 2.0**-24, 2.0**-12, 0.5, 1.0, 2.0, 3.4028235e38]
STEPS = [(k + 0.5) * LN2 for k in range(151)]
"""Where an exponential goes to the next power of two."""

POINTS: dict[str, list[float]] = {
    "exp": [*STEPS, 88.72284, 89.0, 87.336544, 103.27893, 103.97208, 104.0],
    "log": [math.sqrt(0.5) * 2.0**k for k in range(-148, 128)],
    "rsqrt": [4.0**k for k in range(-70, 64)],
    "tanh": [*(x / 2 for x in STEPS[:30]), polynomials.TANH_SMALL, polynomials.TANH_LARGE, 9.0109],
    "erf": [polynomials.ERF_SMALL, polynomials.ERF_LARGE, 3.8325, *np.linspace(0.9, 4, 99)],
    "sigmoid": [*STEPS, 16.635532, 17.328680, 88.72284, 87.336544, 103.27893, 103.97208],
}
"""Where a formula changes over or a result leaves the range; circular functions have `ANGLES`."""

ANGLES = np.arange(1, ANGLE / (HALF_PI / 2)) * (HALF_PI / 2)
"""All multiples of pi / 4: zeros, turning points, and where the quadrant changes."""


def native(name: str, level: str) -> Function:
    return computed(ALL[name][0], level)


@cache
def computed(make: Callable[[Any], Any], level: str, kind: Any = f32) -> Function:
    sheet = Sheet()
    sheet.compute("y", make(sheet.given("x", kind, ["N"], normal)))
    compiled = lamina.compile(sheet.module, f"cpu{{features={level}}}", weights={})
    return lambda x: compiled(x=x)["y"]


def around(points: Any, near: int) -> Any:
    """Return points of either sign and the `near` floats on either side of each, finite ones."""
    bits = np.abs(np.asarray(points, np.float32)).view(np.int32)
    bits = (bits[:, None] + np.arange(-near, near + 1, dtype=np.int32)).ravel()
    x = bits[bits >= 0].view(np.float32)
    x = x[np.isfinite(x)]
    return np.concatenate([x, -x])


def in_range(name: str, x: Any) -> Any:
    return x[np.abs(x) <= ANGLE] if name in ("sin", "cos", "tan") else x


def anywhere(name: str, count: int) -> Any:
    """Return one float of each of `count` equal stretches of all bit patterns, NaN among them."""
    width = (1 << 32) // count
    offsets = np.random.default_rng(7).integers(0, width, count, np.uint32)
    return in_range(name, (np.arange(count, dtype=np.uint32) * width + offsets).view(np.float32))


def check(name: str, level: str, x: Any) -> None:
    """Results are near those in float64; zeros, infinities and NaN are theirs, signs included."""
    with np.errstate(all="ignore"):
        exact = ALL[name][1](x.astype(np.float64))
        expected = exact.astype(np.float32)
        got = native(name, level)(x)
        unit = 2.0 ** (np.clip(np.frexp(exact)[1] - 1, -126, 127) - 23)
        error = np.abs(got.astype(np.float64) - exact) / unit
    same = (got == expected) | (np.isnan(got) & np.isnan(expected))
    error = np.where(same, 0, np.where(np.isnan(error), np.inf, error))
    worst = error.argmax()
    assert error[worst] <= ALL[name][2], (x[worst], got[worst], expected[worst])
    wrong = (np.signbit(got) != np.signbit(expected)) & ~np.isnan(expected)
    assert not wrong.any(), (x[wrong][0], got[wrong][0])


@pytest.mark.parametrize("level", SAMPLES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_any_float_is_near_its_value_in_float64(name: str, level: str) -> None:
    check(name, level, anywhere(name, SAMPLES[level]))


@pytest.mark.parametrize("level", SAMPLES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_as_near_where_its_formula_changes(name: str, level: str) -> None:
    check(name, level, in_range(name, around([*EVERYWHERE, *POINTS.get(name, ())], NEAR)))


@pytest.mark.parametrize("name", SELDOM)
def test_a_function_that_is_seldom_used_is_near_its_value_in_float64(name: str) -> None:
    points = [*EVERYWHERE, 1 - 2.0**-24, 1 + 2.0**-23, 1e4, 2.0**14, 88.7, 89.4, *STEPS[:130:8]]
    ends = in_range(name, around(points, NEAR))
    check(name, "auto", np.concatenate([anywhere(name, SAMPLES["generic"] // 4), ends]))


DOUBLES = {
    "exp": (nn.ExpOp, np.exp),
    "log": (nn.LogOp, np.log),
    "sigmoid": (nn.SigmoidOp, lambda x: 1 / (1 + np.exp(-x))),
}


@pytest.mark.parametrize("name", DOUBLES)
def test_a_function_of_doubles_is_near_its_value_in_more_bits(name: str) -> None:
    make, function = DOUBLES[name]
    random = np.random.default_rng(8)
    x = random.integers(0, 1 << 64, 1 << 16, np.uint64).view(np.float64)
    x = np.concatenate([x, random.uniform(-746, 711, 1 << 16), random.normal(1, 0.2, 1 << 14)])
    with np.errstate(all="ignore"):
        exact = function(x.astype(np.longdouble))
        got, expected = computed(make, "auto", f64)(x), exact.astype(np.float64)
        unit = 2.0 ** (np.clip(np.frexp(exact)[1] - 1, -1022, 1023) - 52)
        error = np.abs(got - exact) / unit
    same = (got == expected) | (np.isnan(got) & np.isnan(expected))
    assert np.where(same, 0, error).max() <= 2


@pytest.mark.parametrize("level", SAMPLES)
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_an_angle_is_reduced_well_beside_every_eighth_of_a_turn(name: str, level: str) -> None:
    check(name, level, in_range(name, around(ANGLES if level == "auto" else ANGLES[::9], 2)))


INF, NAN = math.inf, math.nan
SPECIAL = [0.0, -0.0, INF, -INF, NAN]
RESULTS: dict[str, list[float]] = {
    "exp": [1, 1, INF, 0, NAN],
    "log": [-INF, -INF, INF, NAN, NAN],
    "rsqrt": [INF, -INF, 0, NAN, NAN],
    "tanh": [0, -0.0, 1, -1, NAN],
    "erf": [0, -0.0, 1, -1, NAN],
    "sin": [0, -0.0, NAN, NAN, NAN],
    "cos": [1, 1, NAN, NAN, NAN],
    "sigmoid": [0.5, 0.5, 1, 0, NAN],
}
"""What functions are of `SPECIAL`."""


@pytest.mark.parametrize("level", SAMPLES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_its_special_values(name: str, level: str) -> None:
    got, expected = native(name, level)(np.float32(SPECIAL)), np.float32(RESULTS[name])
    assert np.array_equal(got, expected, equal_nan=True)
    assert np.array_equal(np.signbit(got)[expected == 0], np.signbit(expected)[expected == 0])


@pytest.mark.parametrize("level", SAMPLES)
@pytest.mark.parametrize("name", ["sin", "cos"])
def test_a_circular_function_of_a_larger_angle_stays_within_one(name: str, level: str) -> None:
    x = around(np.logspace(5, 38.5, 4096), 1)
    assert (np.abs(native(name, level)(x)) <= 1).all()


ACTIVATIONS: dict[str, tuple[Callable[[Any], Any], Function]] = {
    "silu": (nn.SiluOp, lambda x: x / (1 + np.exp(-x))),
    "gelu": (nn.GeluOp, lambda x: x * (1 + erf(x / math.sqrt(2))) / 2),
    "gelu_tanh": (
        lambda x: nn.GeluOp(x, approximate=True),
        lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    ),
}


@pytest.mark.parametrize("level", SAMPLES)
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_of_any_float_is_near_its_value_in_float64(name: str, level: str) -> None:
    make, exact = ACTIVATIONS[name]
    x = np.concatenate([anywhere(name, SAMPLES[level]), np.float32(SPECIAL)])
    x = np.concatenate([x, np.linspace(-12, 12, 1 << 16, dtype=np.float32)])
    with np.errstate(all="ignore"):
        expected = exact(x.astype(np.float64))
        got = computed(make, level)(x).astype(np.float64)
        error = np.abs(got - expected) / np.maximum(np.abs(expected), 1)
    missing = np.isnan(expected)
    assert np.array_equal(np.isnan(got), missing)
    endless = np.isinf(expected.astype(np.float32))
    assert np.array_equal(got[endless], expected[endless])
    assert error[~missing & ~endless].max() <= 1e-6


DECAY = """tile.kernel @k attributes {symbols = ["n"], grid = ["1"], access = ["read", "write"]} {
^bb0(%x: memref<?xf32>, %y: memref<?xf32>, %n: index):
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  scf.for %i = %c0 to %n step %c16 {
    %v = tile.load %x[%i] {shape = array<i64: 16>} : memref<?xf32> [index] -> vector<16xf32>
    %e = math.exp %v {lamina.nonpositive} : vector<16xf32>
    tile.store %e, %y[%i] {shape = array<i64: 16>} : vector<16xf32>, memref<?xf32> [index]
  }
  tile.return
}"""


@pytest.mark.parametrize("level", SAMPLES)
def test_an_exponential_that_only_decays_is_near_its_value_in_float64(
    level: str, run_native: Callable[..., Any]
) -> None:
    x = -np.abs(np.concatenate([around(STEPS, NEAR), anywhere("exp", SAMPLES[level])]))
    kernel: Any = Parser(context(), DECAY).parse_module().body.block.first_op
    decompose_functions(kernel)
    got = np.zeros_like(x)
    run_native(kernel, [x, got], {"n": len(x)}, None if level == "auto" else level)
    with np.errstate(all="ignore"):
        exact = np.exp(x.astype(np.float64))
        error = np.abs(got - exact) / 2.0 ** (np.frexp(exact)[1] - 24)
    assert error[x > -87].max() <= 2
    assert (got[x < -87.7] == 0).all()
    assert np.array_equal(np.isnan(got), np.isnan(x))
