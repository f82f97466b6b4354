"""Groups that go through rows of any extents: which of them have one kernel, and what it gives."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32, i64
from xdsl.ir import SSAValue

import lamina
from lamina.compiler import lower
from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents
from lamina.dialects.tile import KernelOp
from lamina.frontend.graph import Graph
from lamina.frontend.model import Weights

PASSES = "outline-groups,fuse-elementwise,lower-groups"
ZERO = FloatAttr(0.0, f32)
COUNTS = (0, 1, 3, 31, 1000)


@dataclass(frozen=True)
class Case:
    """An output: the shapes of its inputs, the operations that give it, and what NumPy gives."""

    shapes: tuple[str, ...]
    build: Callable[..., SSAValue]
    meant: Callable[..., Any]


def module_of(cases: list[Case]) -> Any:
    graph = Graph(Weights((), "the test"))
    for n, case in enumerate(cases):
        xs = [graph.input(f"x{n}_{i}", f32, s.split()) for i, s in enumerate(case.shapes)]
        graph.output(f"y{n}", case.build(graph.add, *xs))
    return graph.finish()


def kernels_of(*cases: Case) -> int:
    lowered = lower(module_of(list(cases)), "reference", pipeline=PASSES)
    return sum(isinstance(op, KernelOp) for op in lowered.ops)


def check(target: str, cases: list[Case], **symbols: int) -> None:
    rng = np.random.default_rng(0)
    shapes = [[symbols.get(n, n) for n in s.split()] for case in cases for s in case.shapes]
    xs = [rng.normal(0, 1, [int(n) for n in shape]).astype(np.float32) for shape in shapes]
    found = lamina.compile(module_of(cases), target)(*xs).values()
    for case, y in zip(cases, found, strict=True):
        mine, xs = xs[: len(case.shapes)], xs[len(case.shapes) :]
        np.testing.assert_array_equal(y, case.meant(*mine))


def added(add: Any, x: SSAValue, y: SSAValue) -> SSAValue:
    return add(nn.MulOp(add(nn.AddOp(x, y)), x))


def scaled(dim: int) -> Callable[..., SSAValue]:
    def build(add: Any, x: SSAValue, y: SSAValue) -> SSAValue:
        return add(nn.MulOp(x, add(nn.BroadcastOp(y, [dim], extents(x.type)))))

    return build


def padded(low: list[Any], high: list[Any]) -> Callable[..., SSAValue]:
    return lambda add, x: add(nn.PadOp(x, low, high, ZERO))


def joined(dim: int) -> Callable[..., SSAValue]:
    return lambda add, x, y: add(nn.ConcatOp([x, y], dim))


def sliced(start: list[Any], shape: list[Any], step: tuple[int, ...] = ()) -> Any:
    return lambda add, x: add(nn.SliceOp(x, start, shape, step))


def largest(add: Any, x: SSAValue) -> SSAValue:
    return add(nn.ReduceOp(add(nn.NegOp(x)), "max", [len(extents(x.type)) - 1]))


def turned(perm: list[int]) -> Callable[..., SSAValue]:
    return lambda add, x: add(nn.TransposeOp(x, perm))


T = Dim.symbol("T")
MAPS = [
    Case(shapes, added, lambda x, y: (x + y) * x)
    for shapes in (("T 7",) * 2, ("3 T 31",) * 2, ("T",) * 2, ("5 1000",) * 2, ("2*T 1",) * 2)
]
ROWS = [
    Case(("T 96", "96"), scaled(1), lambda x, y: x * y),
    Case(("2 T 1000", "1000"), scaled(2), lambda x, y: x * y),
    Case(("3 1 T", "T"), scaled(2), lambda x, y: x * y),
]
COLUMNS = [
    Case(("T 96", "T"), scaled(0), lambda x, y: x * y[:, None]),
    Case(("T 8 40", "T"), scaled(0), lambda x, y: x * y[:, None, None]),
]
PADS = [
    Case(("T 33",), padded([0, 2], [0, 1]), lambda x: np.pad(x, ((0, 0), (2, 1)))),
    Case(("T 3 T",), padded([0, 1, 0], [0, 0, 0]), lambda x: np.pad(x, ((0, 0), (1, 0), (0, 0)))),
    Case(
        ("4 T 8",),
        padded([0, 0, 0], [0, T, 0]),
        lambda x: np.pad(x, ((0, 0), (0, x.shape[1]), (0, 0))),
    ),
]
JOINS = [
    Case(("T 31", "T 9"), joined(1), lambda *x: np.concatenate(x, 1)),
    Case(("3 T 8", "3 5 8"), joined(1), lambda *x: np.concatenate(x, 1)),
    Case(("2 T T", "2 T 1000"), joined(2), lambda *x: np.concatenate(x, 2)),
]
FIRST = [
    Case(("T 3", "1 3"), joined(0), lambda *x: np.concatenate(x, 0)),
    Case(("T", "1000"), joined(0), lambda *x: np.concatenate(x, 0)),
]
SLICES = [
    Case(("3 T+1 64",), sliced([0, 1, 0], [3, T, 64]), lambda x: x[:, 1:]),
    Case(("T 99",), sliced([0, 64], [T, 35]), lambda x: x[:, 64:]),
]
REDUCTIONS = [
    Case(("T 100",), largest, lambda x: (-x).max(-1)),
    Case(("2 T 100",), largest, lambda x: (-x).max(-1)),
    Case(("3 1 T 100",), largest, lambda x: (-x).max(-1)),
]
TURNS = [
    Case(("T 1 40",), turned([2, 1, 0]), lambda x: x.transpose(2, 1, 0)),
    Case(("T 50",), turned([1, 0]), lambda x: x.T),
    Case(("3 T 50",), turned([1, 2, 0]), lambda x: x.transpose(1, 2, 0)),
]
BATCHES = [
    Case(("3 T 40",), turned([0, 2, 1]), lambda x: x.transpose(0, 2, 1)),
    Case(("T 50",), turned([1, 0]), lambda x: x.T),
]
SHARED = {
    "maps": MAPS,
    "rows": ROWS,
    "columns": COLUMNS,
    "pads": PADS,
    "joins": JOINS,
    "first": FIRST,
    "slices": SLICES,
    "reductions": REDUCTIONS,
    "batches": BATCHES,
}


@pytest.mark.parametrize("cases", SHARED.values(), ids=SHARED)
def test_groups_of_any_extents_share_a_kernel(cases: list[Case]) -> None:
    assert kernels_of(*cases) == 1


@pytest.mark.parametrize("target", ["reference", "cpu"])
@pytest.mark.parametrize("cases", [*SHARED.values(), TURNS], ids=[*SHARED, "turns"])
def test_a_shared_kernel_gives_what_each_group_means(cases: list[Case], target: str) -> None:
    for count in COUNTS[: 5 if target == "cpu" else 4]:
        check(target, cases, T=count, **{"2*T": 2 * count, "T+1": count + 1})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ROWS[0], COLUMNS[0]),
        (REDUCTIONS[0], Case(("T 64",), largest, None)),
        (SLICES[0], Case(("3 T 64",), sliced([0, 0, 0], [3, 2, 64], (1, 2, 1)), None)),
        (TURNS[1], Case(("T 3",), turned([1, 0]), None)),
        (JOINS[0], Case(("T 3", "T 4"), joined(1), None)),
    ],
    ids=["rows and columns", "lengths of rows", "steps", "short rows", "short joins"],
)
def test_groups_that_go_another_way_have_kernels_of_their_own(one: Case, other: Case) -> None:
    assert kernels_of(one, other) == 2


def test_a_group_alone_keeps_its_numbers() -> None:
    lowered = lower(module_of(MAPS[:1]), "reference", pipeline=PASSES)
    assert "memref<?x7xf32>" in str(lowered)


def test_extents_that_operations_do_not_tie_may_differ() -> None:
    cases = [Case(("T T", "T T"), joined(1), None), Case(("4 40", "4 50"), joined(1), None)]
    assert kernels_of(*cases) == 1


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_a_transpose_that_leaves_elements_where_they_are_needs_no_kernel(target: str) -> None:
    case = Case(("T 1 40",), turned([1, 0, 2]), lambda x: x.transpose(1, 0, 2))
    exp = Case(
        ("T 1 40",),
        lambda add, x: turned([1, 0, 2])(add, add(nn.NegOp(x))),
        lambda x: -x[None, :, 0],
    )
    assert kernels_of(exp) == 1
    check(target, [case, exp], T=3)


def numbered(*values: int) -> Any:
    graph = Graph(Weights((), "the test"))
    for value in values:
        x = graph.input(f"x{value}", i64, ["T", 1])
        number = graph.add(nn.ConstantOp(IntegerAttr(value, i64), x.type))
        graph.output(f"y{value}", graph.add(nn.ConcatOp([number, x], 1)))
    return graph.finish()


def test_numbers_that_are_put_beside_are_arguments() -> None:
    values, x = (7, 0, -3), np.arange(31)[:, None]
    lowered = lower(numbered(*values), "reference", pipeline=PASSES)
    assert sum(isinstance(op, KernelOp) for op in lowered.ops) == 1
    found = lamina.compile(numbered(*values), "cpu")(x, x, x).values()
    for value, y in zip(values, found, strict=True):
        np.testing.assert_array_equal(y, np.concatenate([np.full_like(x, value), x], 1))
