"""Each operation of a kernel as machine code, against its NumPy meaning, bit for bit."""

import numpy as np
import pytest
from kernel_text import (
    ARITHMETIC,
    DTYPES,
    FLOATS,
    INTEGERS,
    check,
    equal_numbers,
    kernel_of,
    numbers,
    vector,
)

SHAPES = ((6, 12), (5,), ())
"""Several registers of an odd width, less than one, and a scalar."""


FLOAT_BINARY = ("addf", "subf", "mulf", "divf")
FLOAT_UNARY = (
    "math.absf",
    "math.sqrt",
    "math.floor",
    "math.ceil",
    "math.trunc",
    "math.roundeven",
    "arith.negf",
)
INTEGER_BINARY = (
    "addi", "subi", "muli", "divsi", "divui", "remsi", "remui", "andi", "ori", "xori",
    "shli", "shrsi", "shrui", "maxsi", "minsi", "maxui", "minui",
)  # fmt: skip
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


@pytest.mark.parametrize("level", ARITHMETIC)
@pytest.mark.parametrize("kind", FLOATS)
def test_floats_are_rounded_once_and_keep_nan(kind, level, run_native):
    for shape in SHAPES:
        v = vector(shape, kind)
        lines = [f"%{op} = arith.{op} %x, %y : {v}" for op in FLOAT_BINARY]
        lines += [f"%{op.split('.')[1]} = {op} %x : {v}" for op in FLOAT_UNARY]
        lines.append(f"%copysign = math.copysign %x, %y : {v}")
        names = [*FLOAT_BINARY, *(op.split(".")[1] for op in FLOAT_UNARY), "copysign"]
        inputs, outputs = [(n, shape, kind) for n in "xy"], [(n, shape, kind) for n in names]
        rng = np.random.default_rng(len(shape))
        arrays = [numbers(rng, kind, shape) for _ in inputs]
        check(run_native, kernel_of(inputs, lines, outputs), arrays, outputs, level)


@pytest.mark.parametrize("level", ARITHMETIC)
@pytest.mark.parametrize("kind", FLOATS)
def test_the_larger_and_the_smaller_keep_nan(kind, level, run_native):
    for shape in ((6, 12),):
        v = vector(shape, kind)
        ops = ("maximumf", "minimumf")
        lines = [f"%{op} = arith.{op} %x, %y : {v}" for op in ops]
        lines += [f"%c = arith.constant dense<1.5> : {v}"]
        lines += [f"%{op}c = arith.{op} %x, %c : {v}" for op in ops]
        lines += [f"%c{op} = arith.{op} %c, %x : {v}" for op in ops]
        names = [name for op in ops for name in (op, f"{op}c", f"c{op}")]
        inputs, outputs = [(n, shape, kind) for n in "xy"], [(n, shape, kind) for n in names]
        arrays = [numbers(np.random.default_rng(n), kind, shape) for n in range(2)]
        kernel = kernel_of(inputs, lines, outputs)
        check(run_native, kernel, arrays, outputs, level, equal_numbers)


@pytest.mark.parametrize("level", [level for level in ARITHMETIC if level != "generic"])
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_fma_is_rounded_once(kind, level, run_native):
    shape = (3, 16)
    lines = [f"%r = math.fma %x, %y, %z : {vector(shape, kind)}"]
    inputs, outputs = [(n, shape, kind) for n in "xyz"], [("r", shape, kind)]
    arrays = [numbers(np.random.default_rng(n), kind, shape) for n in range(3)]
    check(run_native, kernel_of(inputs, lines, outputs), arrays, outputs, level)


@pytest.mark.parametrize("level", ARITHMETIC)
@pytest.mark.parametrize("kind", INTEGERS)
def test_integers_wrap_and_division_by_zero_gives_zero(kind, level, run_native):
    for shape in ((3, 5), (16,)):
        v = vector(shape, kind)
        lines = [f"%{op} = arith.{op} %x, %y : {v}" for op in INTEGER_BINARY]
        inputs = [(n, shape, kind) for n in "xy"]
        outputs = [(n, shape, kind) for n in INTEGER_BINARY]
        arrays = [numbers(np.random.default_rng(n), kind, shape) for n in range(2)]
        arrays[1].flat[:1] = 0
        check(run_native, kernel_of(inputs, lines, outputs), arrays, outputs, level)


@pytest.mark.parametrize("level", ARITHMETIC)
@pytest.mark.parametrize("kind", [*FLOATS, *INTEGERS, "i1"])
def test_comparisons_choose(kind, level, run_native):
    for shape in ((6, 12), ()):
        v, m = vector(shape, kind), vector(shape, "i1")
        lines, outputs = [], []
        for op in COMPARISONS:
            for word in ("", ", unsigned") if kind in INTEGERS else ("",):
                name = op + word[2:]
                lines.append(
                    f'%{name} = tile.compare %x, %y {{kind = "{op}"{word}}} : ({v}, {v}) -> {m}'
                )
                lines.append(f"%s{name} = tile.select %{name}, %x, %y : ({m}, {v}, {v}) -> {v}")
                outputs += [(name, shape, "i1"), (f"s{name}", shape, kind)]
        inputs = [(n, shape, kind) for n in "xy"]
        rng = np.random.default_rng(5)
        arrays = [numbers(rng, kind, shape) for _ in inputs]
        arrays[1].flat[::3] = arrays[0].flat[::3]
        check(run_native, kernel_of(inputs, lines, outputs), arrays, outputs, level)


@pytest.mark.parametrize("level", ARITHMETIC)
@pytest.mark.parametrize("source", DTYPES)
def test_casts_saturate_and_round_to_even(source, level, run_native):
    for shape in ((6, 12), ()):
        lines, outputs = [], []
        for target in DTYPES:
            for word in ("", "{unsigned} "):
                name = target + word.strip("{} ")
                lines.append(
                    f"%{name} = tile.cast %x {word}: ({vector(shape, source)}) -> {vector(shape, target)}"
                )
                outputs.append((name, shape, target))
        inputs = [("x", shape, source)]
        arrays = [numbers(np.random.default_rng(1), source, shape)]
        check(run_native, kernel_of(inputs, lines, outputs), arrays, outputs, level)
