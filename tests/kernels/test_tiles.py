"""Movement, sums and dots of tiles as machine code, against their NumPy meanings."""

import numpy as np
import pytest
from kernel_text import (
    ARITHMETIC,
    BYTES,
    DTYPES,
    WIDTHS,
    check,
    equal_numbers,
    kernel_of,
    numbers,
    same,
    vector,
)

MOVES = {
    "broadcast": ("tile.broadcast", "{dims = array<i64: 1>}", (5,), (3, 5, 2)),
    "widened": ("tile.broadcast", "{dims = array<i64: 0, 2>}", (3, 1), (3, 4, 16)),
    "transposed": ("tile.transpose", "{perm = array<i64: 1, 0>}", (16, 16), (16, 16)),
    "turned": ("tile.transpose", "{perm = array<i64: 2, 0, 1>}", (3, 4, 5), (5, 3, 4)),
    "reshaped": ("tile.reshape", "", (6, 10), (4, 15)),
    "cut": ("tile.slice", "{start = array<i64: 1, 3>}", (4, 33), (2, 17)),
}


@pytest.mark.parametrize("level", WIDTHS)
@pytest.mark.parametrize("kind", ["i1", "i8", "bf16", "f32", "i64"])
def test_every_movement_puts_each_element_in_its_place(kind, level, run_native):
    rng = np.random.default_rng(0)
    inputs, lines, outputs = [], [], []
    for name, (op, attributes, source, result) in MOVES.items():
        inputs.append((f"x{name}", source, kind))
        lines.append(
            f"%{name} = {op} %x{name} {attributes} : ({vector(source, kind)}) -> {vector(result, kind)}"
        )
        outputs.append((name, result, kind))
    arrays = [numbers(rng, kind, shape) for _, shape, _ in inputs]
    check(run_native, kernel_of(inputs, lines, outputs), arrays, outputs, level)


@pytest.mark.parametrize("level", WIDTHS)
def test_joined_and_counted_tiles_keep_their_order(level, run_native):
    inputs = [("a", (3, 4), "i32"), ("b", (3, 8), "i32"), ("c", (3, 1), "i32"), ("s", (), "f32")]
    lines = [
        "%j = tile.join %a, %b, %c {dim = 1 : i64} : (vector<3x4xi32>, vector<3x8xi32>, vector<3x1xi32>) -> vector<3x13xi32>",
        "%n = tile.iota : vector<37xi32>",
        "%f = tile.splat %s : (f32) -> vector<2x24xf32>",
    ]
    outputs = [("j", (3, 13), "i32"), ("n", (37,), "i32"), ("f", (2, 24), "f32")]
    arrays = [numbers(np.random.default_rng(1), k, s) for _, s, k in inputs]
    check(run_native, kernel_of(inputs, lines, outputs), arrays, outputs, level)


EXACT = ("max", "min", "argmax", "argmin")


def reductions(kind: str) -> tuple[str, ...]:
    if kind == "i1":
        return ("and", "or", "max", "min")
    return EXACT if kind in ("f16", "bf16", "f32", "f64") else (*EXACT, "add", "mul", "and", "or")


@pytest.mark.parametrize("level", WIDTHS)
@pytest.mark.parametrize("kind", ["i1", "i8", "i32", "i64", "f16", "f32", "f64"])
def test_reductions_find_nan_and_the_first_of_equals(kind, level, run_native):
    lines, outputs, shape = [], [], (3, 7, 4)
    for op in reductions(kind):
        for dims in ((0,), (1,), (2,)) if op.startswith("arg") else ((0,), (2,), (0, 2), (0, 1, 2)):
            name = op + "".join(map(str, dims))
            rest = tuple(n for d, n in enumerate(shape) if d not in dims)
            results, types = f"%{name}", vector(rest, kind)
            outputs.append((name, rest, kind))
            if op.startswith("arg"):
                results, types = f"%{name}, %p{name}", f"({types}, {vector(rest, 'i32')})"
                outputs.append((f"p{name}", rest, "i32"))
            listed = ", ".join(map(str, dims))
            lines.append(
                f'{results} = tile.reduce %x {{kind = "{op}", dims = array<i64: {listed}>}} : ({vector(shape, kind)}) -> {types}'
            )
    rng = np.random.default_rng(2)
    x = numbers(rng, kind, shape)
    x[:, 3] = x[:, 1]
    check(
        run_native,
        kernel_of([("x", shape, kind)], lines, outputs),
        [x],
        outputs,
        level,
        equal_numbers,
    )


@pytest.mark.parametrize("level", WIDTHS)
@pytest.mark.parametrize("shape", [(16,), (33,), (4, 48)])
def test_a_sum_is_near_the_exact_one(shape, level, run_native):
    dims = ", ".join(str(d) for d in range(len(shape)))
    lines = [
        f'%s = tile.reduce %x {{kind = "add", dims = array<i64: {dims}>}} : ({vector(shape, "f32")}) -> f32'
    ]
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    got = np.zeros(1, np.float32)
    kernel = kernel_of([("x", shape, "f32")], lines, [("s", (), "f32")])
    run_native(kernel, [x, got], {}, level)
    assert abs(got[0] - x.sum(dtype=np.float64)) < 1e-6 * np.abs(x).sum()


@pytest.mark.parametrize("level", WIDTHS)
@pytest.mark.parametrize("kind", ["i32", "f16", "f32"])
def test_a_scan_goes_up_one_by_one(kind, level, run_native):
    shape, lines, outputs = (3, 5, 4), [], []
    for op in ("add", "mul", "max", "min"):
        for dim in (1, 2):
            lines.append(
                f'%{op}{dim} = tile.scan %x {{kind = "{op}", dim = {dim} : i64}} : ({vector(shape, kind)}) -> {vector(shape, kind)}'
            )
            outputs.append((f"{op}{dim}", shape, kind))
    x = np.random.default_rng(4).integers(-3, 4, shape).astype(DTYPES[kind])
    check(
        run_native,
        kernel_of([("x", shape, kind)], lines, outputs),
        [x],
        outputs,
        level,
        equal_numbers,
    )


DOTS = {
    "matmul": ((5, 7), (7, 32), [(1, 0)], []),
    "transposed": ((7, 5), (16, 7), [(0, 1)], []),
    "two": ((4, 2, 3), (2, 3, 16), [(1, 0), (2, 1)], []),
    "batched": ((3, 2, 4), (3, 4, 16), [(2, 1)], [(0, 0)]),
    "vector": ((6, 9), (9,), [(1, 0)], []),
    "narrow": ((6, 9), (9, 3), [(1, 0)], []),
    "packed": ((3, 8, 4), (8, 16, 4), [(1, 0), (2, 2)], []),
}
"""Shapes of a and b, the pairs of dimensions contracted, and those of the batch."""


def dot_kernel(name: str, kind: str, total: str, unsigned: str = ""):
    a, b, contract, batch = DOTS[name]
    left, right = ({pair[side] for pair in (*contract, *batch)} for side in (0, 1))
    shape = (
        *(a[i] for i, _ in batch),
        *(n for d, n in enumerate(a) if d not in left),
        *(n for d, n in enumerate(b) if d not in right),
    )
    rest = f", batch = {[list(pair) for pair in batch]}" if batch else ""
    types = (
        f"({vector(a, kind)}, {vector(b, kind)}, {vector(shape, total)}) -> {vector(shape, total)}"
    )
    pairs = [list(pair) for pair in contract]
    line = f"%y = tile.dot %a, %b, %c {{contract = {pairs}{rest}{unsigned}}} : {types}"
    inputs, outputs = [("a", a, kind), ("b", b, kind), ("c", shape, total)], [("y", shape, total)]
    return kernel_of(inputs, [line], outputs), inputs, outputs


@pytest.mark.parametrize("level", ARITHMETIC)
@pytest.mark.parametrize("name", DOTS)
def test_a_dot_of_floats_is_one_chain_of_fused_steps(name, level, run_native):
    exact = level == "generic"
    for kind, total in (("f32", "f32"), ("f64", "f64"), ("bf16", "f32"), ("f16", "f32")):
        kernel, inputs, outputs = dot_kernel(name, kind, total)
        rng = np.random.default_rng(5)
        # Where products are rounded too, small integers have none to round.
        arrays = [
            (rng.integers(-8, 9, s) if exact else rng.standard_normal(s)).astype(DTYPES[k])
            for _, s, k in inputs
        ]
        check(run_native, kernel, arrays, outputs, level, same)


@pytest.mark.parametrize("level", BYTES)
@pytest.mark.parametrize("name", DOTS)
def test_a_dot_of_bytes_is_exact_at_the_ends_of_their_range(name, level, run_native):
    DOTS["packed"] = ((3, 8, 4), (8, 16, 4), [(1, 0), (2, 2)], [])
    for signs in ((0, 0), (0, 1), (1, 0), (1, 1)):
        kernel, inputs, outputs = dot_kernel(
            name, "i8", "i32", f", unsigned = array<i64: {signs[0]}, {signs[1]}>"
        )
        rng = np.random.default_rng(6)
        ends = [rng.choice(np.array([-128, 127, -1, 0], np.int8), s) for _, s, _ in inputs[:2]]
        total = rng.integers(-(2**31), 2**31, inputs[2][1], dtype=np.int32)
        check(run_native, kernel, [*ends, total], outputs, level, same)
