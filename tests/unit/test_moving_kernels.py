"""Kernels that move elements: slices, reshapes, gathers, rotations, blocks of 8-bit numbers."""

from typing import Any

import numpy as np
import pytest
from group_module import Body, Run, arrays_of, compare, module_of
from xdsl.dialects.builtin import f32, i64
from xdsl.ir import SSAValue

import lamina
from lamina.compiler import lower
from lamina.dialects import nn, quant
from lamina.dialects.dims import Dim
from lamina.dialects.tile import KernelOp
from lamina.errors import InputError
from lamina.frontend.graph import Graph
from lamina.frontend.model import Weights

ROWS = (0, 1, 3, 31)
T = Dim.symbol("T")


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 2, shape).astype(np.float32)


@pytest.mark.parametrize(
    ("columns", "start", "step", "kept"),
    [(7, 1, 1, 6), (4, 1, 1, 3), (301, 100, 1, 33), (33, 0, 2, 17), (33, 32, -1, 33), (7, 2, 3, 2)],
)
def test_a_slice(columns: int, start: int, step: int, kept: int) -> None:
    def build(body: Body) -> SSAValue:
        x = body.arg(f"f32[T, {columns}]")
        y = body.add(nn.SliceOp(x, [0, start], [T, kept], [1, step]))
        return body.add(nn.ExpOp(y))

    compare(module_of(build, "rows"), *([numbers(rows, columns)] for rows in ROWS))


def moves(*ops: tuple[str, Any]) -> Any:
    """A module that has one move of each of these shapes."""
    graph = Graph(Weights((), "the test"))
    for n, (shape, move) in enumerate(ops):
        x = graph.input(f"x{n}", f32, shape.split())
        graph.output(f"y{n}", graph.add(move(x)))
    return graph.finish()


MOVED = [
    ("B 64 L", lambda x: nn.TransposeOp(x, [0, 2, 1])),
    ("4 T 96", lambda x: nn.TransposeOp(x, [0, 2, 1])),
    ("B L 48", lambda x: nn.TransposeOp(x, [0, 2, 1])),
    ("B 8 L", lambda x: nn.TransposeOp(x, [0, 2, 1])),
    ("B 64 L", lambda x: nn.SliceOp(x, [0, 32, 0], ["B", 32, "L"])),
    ("T 9 64", lambda x: nn.SliceOp(x, [0, 0, 0], ["T", 5, 64])),
    ("T L 64", lambda x: nn.SliceOp(x, [0, Dim.symbol("L") - 2, 0], ["T", 2, 64])),
]


def test_moves_of_tensors_of_any_extents_share_kernels() -> None:
    lowered = lower(moves(*MOVED), "reference", pipeline="outline-groups,lower-groups")
    kernels = [op.sym_name.data for op in lowered.ops if isinstance(op, KernelOp)]
    assert sorted(name.rstrip("_0123456789") for name in kernels) == ["slice", *["transpose"] * 2]


def test_shared_moves_move_what_each_of_them_is_to() -> None:
    rng, module = np.random.default_rng(0), moves(*MOVED)
    shapes = [(2, 64, 7), (4, 5, 96), (2, 7, 48), (2, 8, 7), (2, 64, 7), (5, 9, 64), (5, 7, 64)]
    x = [rng.normal(0, 1, shape).astype(np.float32) for shape in shapes]
    found = list(
        lamina.compile(module, "reference", pipeline="outline-groups,lower-groups")(*x).values()
    )
    for x_n, y in zip(x[:4], found, strict=False):
        np.testing.assert_array_equal(y, x_n.transpose(0, 2, 1))
    np.testing.assert_array_equal(found[4], x[4][:, 32:])
    np.testing.assert_array_equal(found[5], x[5][:, :5])
    np.testing.assert_array_equal(found[6], x[6][:, 5:])


def look_ups(count: int) -> Any:
    """A module of nodes /0, /1, … that each look elements up, of tensors of differing symbols."""
    graph = Graph(Weights((), "the test"))
    for n in range(count):
        x, i = graph.input(f"x{n}", f32, [f"N{n}", 7]), graph.input(f"i{n}", i64, [f"K{n}", 7])
        with graph.at(f"/{n}"):
            graph.output(f"y{n}", graph.add(nn.GatherElementsOp(x, i, 0)))
    return graph.finish()


def test_nodes_that_refuse_indices_share_kernels() -> None:
    lowered = lower(look_ups(26), "reference", pipeline="outline-groups,lower-groups")
    kernels = [op for op in lowered.ops if isinstance(op, KernelOp)]
    checks = [sum(op.name == "tile.check" for op in each.walk()) for each in kernels]
    assert sorted(checks) == [2 * 2, 2 * 24]


@pytest.mark.parametrize("target", ["reference", "cpu"])
@pytest.mark.parametrize("wrong", [0, 1, 2])
def test_an_index_is_refused_by_its_own_node(target: str, wrong: int) -> None:
    run = lamina.compile(look_ups(3), target)
    x = [numbers(3 + n // 2, 7) for n in range(6)]
    x[1::2] = [np.full((2, 7), 2, np.int64) for _ in range(3)]
    assert all(np.array_equal(y, x[2 * n][[2, 2]]) for n, y in enumerate(run(*x).values()))
    x[2 * wrong + 1][1, 5] = 3 + wrong
    with pytest.raises(InputError, match=f"/{wrong}"):
        run(*x)


@pytest.mark.parametrize("start", ["0", "1", "T - 4"])
def test_a_slice_of_rows(start: str) -> None:
    def build(body: Body) -> SSAValue:
        x = body.arg("f32[T, 7]")
        return body.add(nn.NegOp(body.add(nn.SliceOp(x, [Dim.of(start), 2], [4, 5]))))

    compare(module_of(build, "rows"), [numbers(9, 7)])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("T, 6, 8", "T, 48"),
        ("T, 66", "T, 2, 33"),
        ("T, 96", "T, 3, 2, 16"),
        ("T, 6, 16", "T, 3, 32"),
        ("T, 1, 7", "T, 7, 1"),
        ("T, 7", "T, 7, 1, 1"),
        ("3*T, 7", "3, T, 7"),
    ],
)
def test_a_reshape(before: str, after: str) -> None:
    def build(body: Body) -> SSAValue:
        x = body.arg(f"f32[{before}]")
        return body.add(nn.ReshapeOp(x, [Dim.of(n.strip()) for n in after.split(",")]))

    module = module_of(build, "rows")
    compare(module, *(arrays_of(module, T=rows) for rows in ROWS))


@pytest.mark.parametrize("perm", [(0, 2, 1), (2, 1, 0), (1, 0, 2), (2, 0, 1)])
def test_a_transposition(perm: tuple[int, ...]) -> None:
    module = module_of(
        lambda body: body.add(nn.TransposeOp(body.arg("f32[T, 3, 33]"), perm)), "rows"
    )
    compare(module, *(arrays_of(module, T=rows) for rows in ROWS))


@pytest.mark.parametrize("columns", [1, 33, 96])
@pytest.mark.parametrize("ids", ["T", "T, 3"])
def test_a_gather_of_rows(columns: int, ids: str) -> None:
    def build(body: Body) -> SSAValue:
        table, rows = body.arg(f"f16[19, {columns}]"), body.arg(f"i32[{ids}]")
        wide = body.add(nn.CastOp(table, f32))
        return body.add(nn.GatherOp(wide, rows, 0))

    module = module_of(build, "rows")
    compare(module, *(arrays_of(module, T=rows) for rows in ROWS))


@pytest.mark.parametrize("wrong", [-1, 19])
def test_a_row_that_is_not_there_is_an_error(wrong: int) -> None:
    def build(body: Body) -> SSAValue:
        return body.add(nn.GatherOp(body.arg("f32[19, 8]"), body.arg("i32[T]"), 0))

    with pytest.raises(InputError, match=r"nn\.gather"):
        Run(module_of(build, "rows"), "lower-groups")([numbers(19, 8), np.int32([3, wrong])])


def test_a_row_of_nothing_is_an_error() -> None:
    def build(body: Body) -> SSAValue:
        return body.add(nn.GatherOp(body.arg("f32[M, 8]"), body.arg("i32[T]"), 0))

    with pytest.raises(InputError, match=r"nn\.gather"):
        Run(module_of(build, "rows"), "lower-groups")([numbers(0, 8), np.int32([0])])


@pytest.mark.parametrize(
    ("width", "rotated", "interleaved"),
    [(32, 32, False), (48, 48, False), (128, 128, False), (64, 16, False), (32, 32, True)],
)
def test_a_rotation(width: int, rotated: int, interleaved: bool) -> None:
    def build(body: Body) -> SSAValue:
        x = body.arg(f"f32[T, 3, {width}]")
        cos, sin = (body.arg(f"f32[T, {rotated // 2}]") for _ in range(2))
        return body.add(nn.RopeOp(x, cos, sin, interleaved=interleaved))

    module = module_of(build, "rows")
    compare(module, *(arrays_of(module, T=rows) for rows in (0, 1, 3)))


@pytest.mark.parametrize("columns", [32, 96, 320])
def test_quantised_rows(columns: int) -> None:
    def build(body: Body) -> list[Any]:
        x = body.arg(f"f32[T, {columns}]")
        y = body.add(nn.RmsNormOp(x, body.arg(f"f32[{columns}]"), 1e-5))
        return [*body.add(quant.QuantizeOp(y)), y]

    module = module_of(build, "rows")
    cases = [arrays_of(module, T=rows) for rows in ROWS]
    cases[-1][0][1] = 0
    compare(module, *cases, atol=1e-5, rtol=1e-5)


PACKED = {"q4": (4, 8, True), "q4 without offset": (4, 8, False), "q8": (8, 128, False)}


@pytest.mark.parametrize(("bits", "zero", "offset"), PACKED.values(), ids=PACKED)
def test_rows_of_a_packed_table(bits: int, zero: int, offset: bool) -> None:
    def build(body: Body) -> SSAValue:
        parts = [body.arg(f"i8[2, 3, {bits}, 16, 4]"), body.arg("f16[2, 3, 16]")]
        parts += [body.arg("f16[2, 3, 16]")] if offset else []
        table = body.add(quant.DequantizeOp(parts, 27, 96, zero=zero))
        return body.add(nn.GatherOp(table, body.arg("i32[T]"), 0))

    module = module_of(build, "rows")
    compare(module, *(arrays_of(module, T=rows) for rows in ROWS), atol=1e-3)
