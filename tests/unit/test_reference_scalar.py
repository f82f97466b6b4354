from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.parser import Parser

from lamina.errors import LoweringError
from lamina.targets.reference.interpreter import Interpreter, Program, quiet
from lamina.targets.reference.kernel import MEANINGS
from lamina.targets.reference.numerics import cast, fma, maximum, minimum
from lamina.testing.kernels import context

NAN, INF = float("nan"), float("inf")
F32, BF16 = np.float32, ml_dtypes.bfloat16
DTYPES = {"i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64}
DTYPES |= {"f16": np.float16, "f32": np.float32, "f64": np.float64, "bf16": BF16}


def compute(text: str, result: str, *operands: tuple[str, Any]) -> Any:
    """The value of `%r = text : …`, with operands %0, %1, … of these types."""
    args = ", ".join(f"%{n}: {kind}" for n, (kind, _) in enumerate(operands))
    source = (
        f'"test.op"() ({{\n^bb0({args}):\n  %r = {text}\n  scf.yield %r : {result}\n}}) : () -> ()'
    )
    ctx = context()
    ctx.allow_unregistered = True
    body = Parser(ctx, source).parse_module().body.block.first_op.regions[0]
    values = [DTYPES[kind](value) for kind, value in operands]
    with quiet():
        (found,) = Interpreter(Program(MEANINGS)).run_region(body, values)
    return found


def integers(op: str, kind: str, a: int, b: int) -> int:
    return int(compute(f"arith.{op} %0, %1 : {kind}", kind, (kind, a), (kind, b)))


@pytest.mark.parametrize(
    ("op", "a", "b", "expected"),
    [
        ("addi", 127, 1, -128),
        ("subi", -128, 1, 127),
        ("muli", 100, 3, 44),
        ("divsi", -7, 2, -3),
        ("divsi", 7, -2, -3),
        ("divsi", 7, 0, 0),
        ("divsi", -128, -1, -128),
        ("divui", -1, 2, 127),
        ("divui", 5, 0, 0),
        ("remsi", -7, 2, -1),
        ("remsi", 7, -2, 1),
        ("remsi", 7, 0, 0),
        ("remui", -1, 16, 15),
        ("remui", 7, 0, 0),
        ("floordivsi", -7, 2, -4),
        ("ceildivsi", 7, 2, 4),
        ("ceildivsi", -7, 2, -3),
        ("ceildivui", -1, 2, 128 - 256),
        ("shli", 1, 7, -128),
        ("shli", 1, 8, 0),
        ("shli", 1, -1, 0),
        ("shrui", -128, 7, 1),
        ("shrui", -128, 8, 0),
        ("shrsi", -128, 7, -1),
        ("shrsi", -128, 8, 0),
        ("minui", -1, 1, 1),
        ("maxui", -1, 1, -1),
        ("minsi", -1, 1, -1),
        ("maxsi", -1, 1, 1),
        ("xori", 12, 10, 6),
    ],
)
def test_integers_wrap_and_truncate(op: str, a: int, b: int, expected: int) -> None:
    assert integers(op, "i8", a, b) == expected


@pytest.mark.parametrize(("op", "expected"), [("addi", 0), ("subi", 0), ("muli", 1), ("xori", 0)])
def test_one_bit_wraps_too(op: str, expected: int) -> None:
    assert integers(op, "i1", 1, 1) == expected


@pytest.mark.parametrize(
    ("kind", "expected"), [("slt", True), ("ult", False), ("ugt", True), ("eq", False)]
)
def test_integers_compare_signed_or_not(kind: str, expected: bool) -> None:
    assert compute(f"arith.cmpi {kind}, %0, %1 : i8", "i1", ("i8", -1), ("i8", 1)) == expected


@pytest.mark.parametrize(
    ("kind", "less", "unordered"),
    [
        ("olt", True, False),
        ("ult", True, True),
        ("one", True, False),
        ("une", True, True),
        ("ueq", False, True),
        ("uge", False, True),
        ("ord", True, False),
        ("uno", False, True),
    ],
)
def test_floats_compare_ordered_or_not(kind: str, less: bool, unordered: bool) -> None:
    text = f"arith.cmpf {kind}, %0, %1 : f32"
    assert compute(text, "i1", ("f32", 1), ("f32", 2)) == less
    assert compute(text, "i1", ("f32", NAN), ("f32", 2)) == unordered


@pytest.mark.parametrize("choose", [maximum, minimum])
def test_nan_wins_a_maximum_and_a_minimum(choose: Any) -> None:
    a = np.array([NAN, 1, NAN], F32)
    assert np.isnan(choose(a, np.array([1, NAN, NAN], F32))).all()


def test_minus_zero_is_below_plus_zero() -> None:
    zeros = np.array([-0.0, 0.0], F32)
    assert not np.signbit(maximum(zeros, zeros[::-1])).any()
    assert np.signbit(minimum(zeros, zeros[::-1])).all()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (NAN, 0),
        (INF, 127),
        (-INF, -128),
        (1e30, 127),
        (127.5, 127),
        (-128.5, -128),
        (0.5, 0),
        (1.5, 2),
        (2.5, 2),
        (-0.5, 0),
        (-1.5, -2),
        (126.5, 126),
        (-129.0, -128),
    ],
)
def test_a_float_saturates_to_an_integer_after_rounding_to_even(
    value: float, expected: int
) -> None:
    assert cast(F32(value), np.dtype(np.int8)) == expected


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        (np.int64, 1e30, 2**63 - 1),
        (np.int64, -1e30, -(2**63)),
        (np.int32, 2147483647.0, 2147483647),
        (np.bool_, 2.0, True),
        (np.bool_, 0.5, False),
    ],
)
def test_the_ends_of_wide_and_narrow_types_are_met(dtype: Any, value: float, expected: int) -> None:
    assert cast(np.float64(value), np.dtype(dtype)) == expected


def test_an_unsigned_cast_reads_and_writes_the_sign_bit_as_a_number() -> None:
    assert cast(F32(200), np.dtype(np.int8), no_sign=True) == np.int8(-56)
    assert cast(F32(-1), np.dtype(np.int8), no_sign=True) == 0
    assert cast(np.int8(-56), np.dtype(F32), no_sign=True) == 200
    assert cast(np.int8(-1), np.dtype(np.int32), no_sign=True) == 255


def test_integers_wrap_when_narrowed_and_one_bit_is_0_or_1() -> None:
    assert cast(np.int32(300), np.dtype(np.int8)) == 44
    assert cast(np.int32(2), np.dtype(np.bool_)) == np.False_
    assert cast(np.True_, np.dtype(np.int32)) == 1


def test_bf16_is_rounded_once_from_float64() -> None:
    just_above_a_tie = 1 + 2.0**-8 + 2.0**-40
    assert cast(np.float64(just_above_a_tie), np.dtype(BF16)) == 1 + 2.0**-7
    assert cast(F32(1 + 2.0**-8), np.dtype(BF16)) == 1
    assert cast(F32(1 + 3 * 2.0**-8), np.dtype(BF16)) == 1 + 2.0**-6


def exact_fma(a: float, b: float, c: float) -> np.float32:
    total = Fraction(a) * Fraction(b) + Fraction(c)
    near = F32(float(total))
    around = (np.nextafter(near, F32(-INF)), near, np.nextafter(near, F32(INF)))
    distance = [abs(Fraction(float(x)) - total) for x in around]
    nearest = [x for x, d in zip(around, distance, strict=True) if d == min(distance)]
    return next((x for x in nearest if not x.view(np.int32) & 1), nearest[0])


def test_fma_rounds_once() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(2000).astype(F32) for _ in range(2))
    c = (-a * b + rng.standard_normal(2000).astype(F32) * F32(1e-7)).astype(F32)
    expected = [exact_fma(*(float(x) for x in row)) for row in zip(a, b, c, strict=True)]
    np.testing.assert_array_equal(fma(a, b, c), np.array(expected, F32))


def test_fma_is_right_where_two_roundings_are_not() -> None:
    a, b, c = F32(1 + 2.0**-12), F32(2.0**-24 * (1 + 2.0**-12)), F32(1)
    tie = F32(1) + F32(2.0**-24) * F32(1)
    assert tie == 1
    assert fma(a, b, c) == exact_fma(float(a), float(b), float(c)) == F32(1 + 2.0**-23)
    tiny = F32(2.0**-75)
    assert fma(tiny, F32(2.0**-75), F32(2.0**-149)) == exact_fma(2.0**-75, 2.0**-75, 2.0**-149)


def test_fma_of_float64_is_exact() -> None:
    a = np.float64(1 + 2.0**-52)
    assert fma(a, a, np.float64(-1)) == float(Fraction(float(a)) ** 2 - 1)


@pytest.mark.parametrize("op", ["exp", "tanh", "erf", "rsqrt", "sin", "floor", "roundeven"])
def test_functions_keep_nan(op: str) -> None:
    assert np.isnan(compute(f"math.{op} %0 : f32", "f32", ("f32", NAN)))


@pytest.mark.parametrize(
    ("op", "value", "expected"),
    [
        ("roundeven", 2.5, 2),
        ("round", 2.5, 3),
        ("trunc", -1.5, -1),
        ("rsqrt", 0, INF),
        ("exp", -INF, 0),
        ("log", 0, -INF),
        ("sqrt", -0.0, -0.0),
        ("cbrt", -8, -2),
    ],
)
def test_functions_have_their_usual_values(op: str, value: float, expected: float) -> None:
    assert compute(f"math.{op} %0 : f32", "f32", ("f32", value)) == expected


@pytest.mark.parametrize(
    ("op", "value", "expected"),
    [
        ("ctlz", 1, 7),
        ("ctlz", 0, 8),
        ("ctlz", -1, 0),
        ("cttz", 8, 3),
        ("cttz", 0, 8),
        ("ctpop", -1, 8),
    ],
)
def test_bits_are_counted(op: str, value: int, expected: int) -> None:
    assert compute(f"math.{op} %0 : i8", "i8", ("i8", value)) == expected


def test_a_bitcast_keeps_the_bits() -> None:
    assert compute("arith.bitcast %0 : f32 to i32", "i32", ("f32", 1.0)) == 0x3F800000


def test_a_sign_is_extended_or_not() -> None:
    assert compute("arith.extsi %0 : i8 to i32", "i32", ("i8", -1)) == -1
    assert compute("arith.extui %0 : i8 to i32", "i32", ("i8", -1)) == 255
    assert compute("arith.extsi %0 : i1 to i32", "i32", ("i1", 1)) == -1


def test_a_while_loop_runs_until_its_condition_fails() -> None:
    text = """scf.while (%a = %0) : (i32) -> i32 {
        %lim = arith.constant 100 : i32
        %go = arith.cmpi slt, %a, %lim : i32
        scf.condition(%go) %a : i32
    } do {
    ^bb0(%b: i32):
        %t = arith.addi %b, %b : i32
        scf.yield %t : i32
    }"""
    assert compute(text, "i32", ("i32", 3)) == 192


def test_an_operation_without_a_meaning_is_named() -> None:
    with pytest.raises(LoweringError, match=r"reference has no meaning for math\.ipowi"):
        compute("math.ipowi %0, %0 : i32", "i32", ("i32", 2))
