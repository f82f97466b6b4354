"""The formulas of `math` functions, run by the reference, against float64 NumPy."""

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects import math as ops
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import (
    ArrayAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    ModuleOp,
    StringAttr,
    bf16,
    f16,
    f32,
    f64,
)
from xdsl.ir import Attribute, Block, Operation, Region
from xdsl.parser import Parser

from lamina.dialects import tile
from lamina.passes.decompose_math import DOUBLES, FORMULAS, DecomposeMathPass
from lamina.targets.reference.interpreter import quiet
from lamina.targets.reference.kernel import run_kernel
from lamina.testing.kernels import context

COUNT = 1 << 15
Function = Callable[..., Any]

EXACT: dict[type[Operation], Function] = {
    ops.ExpOp: np.exp,
    ops.Exp2Op: np.exp2,
    ops.ExpM1Op: np.expm1,
    ops.LogOp: np.log,
    ops.Log2Op: np.log2,
    ops.Log1pOp: np.log1p,
    ops.TanhOp: np.tanh,
    ops.ErfOp: lambda x: np.frompyfunc(math.erf, 1, 1)(x).astype(np.float64),
    ops.SinOp: np.sin,
    ops.CosOp: np.cos,
    ops.TanOp: np.tan,
    ops.AsinOp: np.arcsin,
    ops.AcosOp: np.arccos,
    ops.AtanOp: np.arctan,
    ops.SinhOp: np.sinh,
    ops.CoshOp: np.cosh,
    ops.AsinhOp: np.arcsinh,
    ops.AcoshOp: np.arccosh,
    ops.AtanhOp: np.arctanh,
    ops.RsqrtOp: lambda x: 1 / np.sqrt(x),
    ops.PowFOp: np.power,
}
"""The functions in float64."""

SPAN: dict[type[Operation], float] = {
    ops.ExpOp: 105,
    ops.Exp2Op: 152,
    ops.ExpM1Op: 90,
    ops.TanhOp: 10,
    ops.ErfOp: 4.2,
    ops.SinOp: 1 << 17,
    ops.CosOp: 1 << 17,
    ops.TanOp: 1 << 17,
    ops.AsinOp: 1,
    ops.AcosOp: 1,
    ops.AtanhOp: 1,
    ops.SinhOp: 90,
    ops.CoshOp: 90,
}
"""Up to where a function is interesting, or accurate."""

LOOSE = (ops.TanOp, ops.AcoshOp, ops.AtanhOp)
"""What may be four units in the last place off, and not two."""

UNARY = [kind for kind in FORMULAS if kind is not ops.PowFOp]
ALIKE = (ops.AcosOp, ops.AcoshOp, ops.AsinhOp, ops.AtanOp, ops.AtanhOp, ops.CoshOp)
FORMS = [kind for kind in UNARY if kind not in ALIKE]
"""One function of each kind of formula."""

SPECIAL = np.array(
    [
        *(0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e-45, -1e-45, 1e-40, -1e-40),
        *(2.0**-126, 3.4028235e38, -3.4028235e38, 0.5, -0.5, 2.0, 3.0, -2.0, -3.0),
        *(88.72284, 128.0, -150.0),
    ],
    np.float32,
)


def kernel(
    kind: type[Any], size: int | None, element: Attribute = f32, operands: int = 1
) -> tile.KernelOp:
    """Return a kernel that applies one operation to vectors of `size`, or to scalars."""
    shape = [1 if size is None else size]
    block = Block(arg_types=[MemRefType(element, shape)] * (operands + 1))
    block.add_op(zero := ConstantOp(IntegerAttr(0, IndexType())))
    value = tile.vector(element, [] if size is None else shape)
    loads = [tile.LoadOp(x, [zero.result], shape, value) for x in block.args[:-1]]
    y = kind(*(load.y for load in loads))
    store = tile.StoreOp(y.results[0], block.args[-1], [zero.result], shape)
    block.add_ops([*loads, y, store, tile.ReturnOp()])
    names = ["read"] * operands + ["write"]
    properties = {
        "sym_name": StringAttr("k"),
        "symbols": ArrayAttr([]),
        "grid": ArrayAttr([StringAttr("1")]),
        "access": ArrayAttr([StringAttr(name) for name in names]),
    }
    return tile.KernelOp(properties=properties, regions=[Region(block)])


def decomposed(program: tile.KernelOp, **options: Any) -> tile.KernelOp:
    DecomposeMathPass(**options).apply(Context(), module := ModuleOp([program]))
    module.verify()
    return program


def evaluate(program: tile.KernelOp, *xs: Any) -> Any:
    y = np.zeros_like(xs[0])
    run_kernel(program, [*(np.array(x) for x in xs), y], {})
    return y


def formula(kind: type[Any], *xs: Any) -> Any:
    return evaluate(decomposed(kernel(kind, len(xs[0]), operands=len(xs))), *xs)


def ulps(got: Any, exact: Any) -> Any:
    """Return the errors in units in the last place of f32; 0 where both are the same special."""
    with quiet():
        exponent = np.floor(np.log2(np.abs(exact)))
        unit = 2.0 ** (np.clip(exponent, -126, 127) - 23)
        error = np.abs(got.astype(np.float64) - exact) / unit
        same = (got == exact.astype(np.float32)) | (np.isnan(got) & np.isnan(exact))
    return np.where(same, 0, np.where(np.isnan(error), np.inf, error))


def samples(kind: type[Operation]) -> Any:
    """Return random bits, and numbers of the interesting span and near 0 and 1."""
    random = np.random.default_rng(5)
    span, size = SPAN.get(kind, 4.0), COUNT // 4
    anywhere = random.integers(0, 1 << 32, size, dtype=np.uint32).view(np.float32)
    if kind in (ops.SinOp, ops.CosOp, ops.TanOp):
        anywhere = anywhere[np.abs(anywhere) <= span]
    parts = [random.uniform(-span, span, size), random.uniform(-1, 1, size)]
    parts.append(1 + random.normal(0, 0.2, size))
    return np.concatenate([anywhere, *(part.astype(np.float32) for part in parts)])


@pytest.mark.parametrize("kind", UNARY, ids=lambda kind: kind.name)
def test_a_function_is_within_a_few_units_in_the_last_place(kind: type[Operation]) -> None:
    x = samples(kind)
    with quiet():
        exact = EXACT[kind](x.astype(np.float64))
    error = ulps(formula(kind, x), exact)
    assert error.max() <= (4 if kind in LOOSE else 2), x[error.argmax()]


@pytest.mark.parametrize("kind", DOUBLES, ids=lambda kind: kind.name)
def test_a_function_of_doubles_has_its_special_values(kind: type[Operation]) -> None:
    x = SPECIAL.astype(np.float64)
    got = evaluate(decomposed(kernel(kind, len(x), f64)), x)
    with quiet():
        np.testing.assert_allclose(got, EXACT[kind](x), rtol=1e-15)


def test_a_power_is_within_four_units_in_the_last_place() -> None:
    random = np.random.default_rng(6)
    x = np.concatenate([np.exp(random.uniform(-87, 88, COUNT)), random.uniform(-2, 2, COUNT)])
    y = np.concatenate([random.normal(0, 2, COUNT), random.integers(-99, 99, COUNT)])
    x, y = x.astype(np.float32), y.astype(np.float32)
    with quiet():
        exact = np.power(x.astype(np.float64), y.astype(np.float64))
    assert ulps(formula(ops.PowFOp, x, y), exact).max() <= 4


def same(got: Any, exact: Any) -> None:
    """Special results agree: NaN, infinity, and zero with its sign; others nearly."""
    expected = exact.astype(np.float32)
    exempt = np.isfinite(expected) & (expected != 0)
    assert ulps(got, exact).max() <= 4
    assert np.array_equal(np.isnan(got), np.isnan(expected))
    assert np.array_equal(got[~exempt], expected[~exempt], equal_nan=True)
    signs = np.signbit(got) == np.signbit(expected)
    assert (signs | np.isnan(expected)).all()


@pytest.mark.parametrize("kind", UNARY, ids=lambda kind: kind.name)
def test_a_function_has_its_special_values(kind: type[Operation]) -> None:
    x = SPECIAL[np.isinf(SPECIAL) | ~(np.abs(SPECIAL) > SPAN.get(kind, np.inf))]
    with quiet():
        same(formula(kind, x), EXACT[kind](x.astype(np.float64)))


def test_a_power_has_its_special_values() -> None:
    x, y = (each.ravel() for each in np.meshgrid(SPECIAL, SPECIAL))
    with quiet():
        same(formula(ops.PowFOp, x, y), np.power(x.astype(np.float64), y.astype(np.float64)))


def test_exponentials_are_exact_where_attention_needs_it() -> None:
    x = np.array([0.0, -0.0, -math.inf, -104.0, -3e38], np.float32)
    assert formula(ops.ExpOp, x).tolist() == [1.0, 1.0, 0.0, 0.0, 0.0]


def test_powers_of_two_are_exact() -> None:
    n = np.arange(-149, 128).astype(np.float32)
    powers = np.ldexp(np.float32(1), n.astype(np.int32)).astype(np.float32)
    assert np.array_equal(formula(ops.Exp2Op, n), powers)
    assert np.array_equal(formula(ops.Log2Op, powers), n)


def test_underflow_is_gradual() -> None:
    x = np.linspace(-103.9, -87.4, 999).astype(np.float32)
    y = formula(ops.ExpOp, x)
    assert (y > 0).all()
    assert (np.diff(y) >= 0).all()


@pytest.mark.parametrize("kind", [ops.SinOp, ops.CosOp], ids=lambda kind: kind.name)
def test_a_circular_function_stays_within_one_of_any_number(kind: type[Operation]) -> None:
    x = np.logspace(0, 38, COUNT).astype(np.float32)
    assert (np.abs(formula(kind, x)) <= 1).all()


@pytest.mark.parametrize(("element", "dtype"), [(f16, np.float16), (bf16, ml_dtypes.bfloat16)])
@pytest.mark.parametrize("kind", FORMS, ids=lambda kind: kind.name)
def test_a_function_of_half_floats_is_rounded_once(
    kind: type[Operation], element: Attribute, dtype: Any
) -> None:
    x = np.random.default_rng(3).uniform(-8, 8, 500).astype(dtype)
    plain = evaluate(kernel(kind, 500, element), x)
    spelt = evaluate(decomposed(kernel(kind, 500, element)), x)
    steps = plain.view(np.int16).astype(int) - spelt.view(np.int16).astype(int)
    steps = np.where(np.isnan(plain) & np.isnan(spelt), 0, np.abs(steps))
    assert steps.max() <= 1
    assert (steps > 0).mean() < 0.01


@pytest.mark.parametrize("kind", FORMS, ids=lambda kind: kind.name)
def test_a_function_of_a_scalar_is_that_of_a_vector(kind: type[Operation]) -> None:
    x = np.array([0.75], np.float32)
    scalar = evaluate(decomposed(kernel(kind, None)), x)
    assert np.array_equal(scalar, formula(kind, np.repeat(x, 3))[:1], equal_nan=True)


def names(program: tile.KernelOp) -> list[str]:
    return [op.name for op in program.body.walk()]


@pytest.mark.parametrize("kind", FORMS, ids=lambda kind: kind.name)
def test_no_call_is_left_but_what_a_target_keeps(kind: type[Operation]) -> None:
    assert kind.name not in names(decomposed(kernel(kind, 8)))
    assert kind.name in names(decomposed(kernel(kind, 8), keep=(kind.name,)))
    assert (kind in DOUBLES) != (kind.name in names(decomposed(kernel(kind, 8, f64))))


def test_an_exponential_is_few_operations() -> None:
    constants = ("arith.constant", "tile.splat", "arith.bitcast")
    plain, spelt = (
        [name for name in names(program) if name not in constants]
        for program in (kernel(ops.ExpOp, 16), decomposed(kernel(ops.ExpOp, 16)))
    )
    assert len(spelt) - (len(plain) - 1) <= 16


def test_constants_are_made_once_and_first() -> None:
    twice = kernel(ops.ExpOp, 16)
    store = next(op for op in twice.body.walk() if isinstance(op, tile.StoreOp))
    twice.body.block.insert_op_before(again := ops.ExpOp(store.v), store)
    store.operands[0] = again.result
    found = names(decomposed(twice))
    first = found.index("tile.load")
    assert found.count("arith.constant") == found[:first].count("arith.constant")
    assert found.count("arith.constant") == names(decomposed(kernel(ops.ExpOp, 16))).count(
        "arith.constant"
    )


@pytest.mark.parametrize("kind", FORMS, ids=lambda kind: kind.name)
def test_a_formula_reads_back_equal_from_its_text(kind: type[Operation]) -> None:
    program = decomposed(kernel(kind, 16))
    again = Parser(context(), str(program)).parse_op()
    assert again.is_structurally_equivalent(program)
