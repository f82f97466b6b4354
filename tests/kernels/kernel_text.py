"""Small kernels around a few operations, inputs at the edges of their types, and comparing."""

from functools import cache

import ml_dtypes
import numpy as np
from xdsl.parser import Parser

from lamina.dialects.tile import KernelOp
from lamina.targets.cpu.features import detect, levels
from lamina.targets.reference.kernel import run_kernel
from lamina.testing.kernels import context

WIDTHS = list({detect(level).vector_bytes: level for level in reversed(levels())}.values())
"""The best level of each register size: below it only dots of bytes differ."""

ARITHMETIC = list(dict.fromkeys([*WIDTHS, "neon"]))
"""The levels whose instructions for numbers differ."""

RUN = list(dict.fromkeys([*levels(), "neon"]))
"""The levels of this machine, and one that is emulated elsewhere."""

BYTES = list(dict.fromkeys([*RUN, "neondot"]))
"""The same, and one that differs in dots of bytes alone."""

DTYPES = {
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
}
FLOATS = ("f16", "bf16", "f32", "f64")
INTEGERS = ("i8", "i16", "i32", "i64")


def memref(shape, kind: str) -> str:
    return f"memref<{'x'.join(map(str, shape))}x{kind}>"


def vector(shape, kind: str) -> str:
    return f"vector<{'x'.join(map(str, shape))}x{kind}>" if shape else kind


def kernel_of(inputs, lines: list[str], outputs) -> KernelOp:
    """A kernel that loads each of `inputs` (name, shape, kind) whole, runs `lines` and stores each of `outputs`."""
    memory = [*inputs, *outputs]
    args = ", ".join(f"%m{n}: {memref(s or (1,), k)}" for n, s, k in memory)
    access = ", ".join(['"read"'] * len(inputs) + ['"write"'] * len(outputs))
    body = ["%c0 = arith.constant 0 : index"]
    for name, shape, kind in inputs:
        body.append(
            f"%{name} = tile.load %m{name}{place(shape)} : {memref(shape or (1,), kind)} {at(shape)} -> {vector(shape, kind)}"
        )
    body += lines
    for name, shape, kind in outputs:
        body.append(
            f"tile.store %{name}, %m{name}{place(shape)} : {vector(shape, kind)}, {memref(shape or (1,), kind)} {at(shape)}"
        )
    text = f'tile.kernel @k attributes {{symbols = [], grid = ["1"], access = [{access}]}} {{\n^bb0({args}):\n'
    return parse(text + "\n".join(body) + "\ntile.return\n}")


def place(shape) -> str:
    rank = len(shape) or 1
    return f"[{', '.join(['%c0'] * rank)}] {{shape = array<i64: {', '.join(map(str, shape or (1,)))}>}}"


def at(shape) -> str:
    return f"[{', '.join(['index'] * (len(shape) or 1))}]"


def edges(kind: str) -> np.ndarray:
    """The values of a type at which something may go wrong."""
    if kind == "i1":
        return np.array([False, True])
    dtype = np.dtype(DTYPES[kind])
    if kind in INTEGERS:
        info = np.iinfo(dtype)
        return np.array(
            [0, 1, -1, 2, -2, 7, info.min, info.max, info.min + 1, info.max // 2], dtype
        )
    halves = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1.0, -1.0, 127.5, 128.5, -128.5, 255.5, 300.0]
    large = [32767.5, -40000.0, 65504.0, 2.0**23 + 1, 2.0**31, -(2.0**31), 2.0**32, 2.0**63, -1e30]
    # Just above the middle of two f16, and of two bf16: by way of f32 they would be ties.
    above = [1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-8 + 2.0**-40, -1 - 2.0**-11 - 2.0**-40]
    with np.errstate(all="ignore"):
        tiny = [6e-8, 5.9604645e-08, 1e-40, -1e-42, 3e-320]
        values = np.array([*halves, *large, *above, *tiny, np.inf, -np.inf, np.nan]).astype(dtype)
    return np.unique(values.view(f"i{dtype.itemsize}")).view(dtype)


def numbers(rng: np.random.Generator, kind: str, shape) -> np.ndarray:
    """Random values, half of them the edges, which (6, 12) values have room for."""
    count = int(np.prod(shape or (1,)))
    if kind in FLOATS:
        some = (rng.standard_normal(count) * 10.0 ** rng.integers(-3, 4, count)).astype(
            DTYPES[kind]
        )
    elif kind == "i1":
        some = rng.integers(0, 2, count).astype(np.bool_)
    else:
        info = np.iinfo(DTYPES[kind])
        some = rng.integers(info.min, info.max, count, dtype=DTYPES[kind], endpoint=True)
    half = (count + 1) // 2
    some[:half] = np.resize(edges(kind), half)
    return rng.permutation(some).reshape(shape or (1,))


def same(got: np.ndarray, expected: np.ndarray) -> bool:
    """Whether the bits agree; one NaN is as good as another."""
    if got.dtype.kind not in "fV" and got.dtype != ml_dtypes.bfloat16:
        return np.array_equal(got, expected)
    bits = f"i{got.dtype.itemsize}"
    nan = np.isnan(got) & np.isnan(expected)
    return bool((nan | (got.view(bits) == expected.view(bits))).all())


def check(run_native, kernel: KernelOp, inputs, outputs, level: str, equal=same) -> None:
    expected = [np.zeros(s or (1,), DTYPES[k]) for _, s, k in outputs]
    got = [x.copy() for x in expected]
    run_kernel(kernel, [*inputs, *expected], {})
    run_native(kernel, [*inputs, *got], {}, level)
    for (name, _, _), x, y in zip(outputs, got, expected, strict=True):
        assert equal(x, y), f"{name}: {x[~(x == y)][:4]} instead of {y[~(x == y)][:4]}"


def equal_numbers(got: np.ndarray, expected: np.ndarray) -> bool:
    """Whether the numbers agree: +0 and -0 are one number."""
    x, y = got.astype(np.float64), expected.astype(np.float64)
    return np.array_equal(x, y, equal_nan=True)


@cache
def parse(text: str) -> KernelOp:
    """The kernel of a text that holds one: the same one every time, so that it is compiled once."""
    module = Parser(context(), text).parse_module()
    module.verify()
    return module.body.block.first_op
