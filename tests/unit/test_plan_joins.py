"""Concatenations written in place: which of them are no kernel, and what they hold."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from plan_builder import Plan, move, planned, verify
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr, f32
from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

import lamina
from lamina.compiler import lower
from lamina.dialects import nn
from lamina.dialects.plan import AllocOp, CallOp, LaunchOp, ViewOp
from lamina.dialects.tile import KernelOp
from lamina.errors import LoweringError
from lamina.frontend.graph import Graph
from lamina.frontend.model import Weights

COPIED = "outline-groups,lower-groups,fuse-launches,plan-memory,verify-plan,decompose-math"
JOINED = COPIED.replace("lower-groups", "lower-groups,plan-joins")
LINES = JOINED.replace("plan-joins", "plan-joins{strided=false}")
COUNTS = (0, 1, 3, 31, 1000)
Build = Callable[..., dict[str, SSAValue]]


def module_of(shapes: list[str], build: Build) -> ModuleOp:
    graph = Graph(Weights((), "the test"))
    xs = [graph.input(f"x{n}", f32, shape.split()) for n, shape in enumerate(shapes)]
    for name, value in build(graph.add, *xs).items():
        graph.output(name, value)
    return graph.finish()


def powers(add: Any, x: SSAValue) -> SSAValue:
    """A kernel of rows that have to be whole."""
    return add(nn.SoftmaxOp(x, len(x.type.get_shape()) - 1))


def joined(dim: int) -> Build:
    return lambda add, *xs: {"y": add(nn.ConcatOp([powers(add, x) for x in xs], dim))}


def chain(add: Any, x: SSAValue) -> dict[str, SSAValue]:
    """What each step makes of all that was made before follows it."""
    y = powers(add, x)
    for _ in range(3):
        y = add(nn.ConcatOp([y, powers(add, y)], 1))
    return {"y": y}


def read_twice(add: Any, x: SSAValue, z: SSAValue) -> dict[str, SSAValue]:
    p = powers(add, x)
    return {"y": powers(add, add(nn.ConcatOp([p, powers(add, z)], 1))), "p": powers(add, p)}


def images(add: Any, x: SSAValue, z: SSAValue) -> dict[str, SSAValue]:
    """Columns of many places, and then whole images one after another."""
    rows = [powers(add, each) for each in (x, z)]
    row = add(nn.ConcatOp(rows, 3))
    return {"y": powers(add, add(nn.ConcatOp([row, powers(add, row)], 0)))}


def flat(add: Any, x: SSAValue, z: SSAValue) -> dict[str, SSAValue]:
    """Parts that are rows to the kernels that make them, and images to what joins them."""
    parts = [add(nn.ReshapeOp(powers(add, each), ["T", 3, 5])) for each in (x, z)]
    return {"y": add(nn.ConcatOp(parts, 1))}


WRITTEN: dict[str, tuple[list[str], Build]] = {
    "columns": (["T 1", "T 3", "T 31"], joined(1)),
    "wide columns": (["T 1000", "T 64"], joined(1)),
    "columns of any width": (["7 T", "7 S", "7 T"], joined(1)),
    "lines": (["T 16", "3 16", "S 16"], joined(0)),
    "middle": (["3 T 16", "3 T 16"], joined(1)),
    "chain": (["T 9"], chain),
    "a part with another user": (["T 5", "T 3"], read_twice),
    "images": (["1 2 T 5", "1 2 T 11"], images),
    "reshaped": (["T 15", "T 15"], flat),
}


def calls(module: ModuleOp, pipeline: str) -> int:
    return sum(
        isinstance(op, CallOp) for op in lower(module, "reference", pipeline=pipeline).walk()
    )


def results(module: ModuleOp, target: str, pipeline: str, **symbols: int) -> list[Any]:
    exe = lamina.compile(module, target=target, pipeline=pipeline, threads=2)
    rng = np.random.default_rng(0)
    shapes = [[dim.evaluate(symbols) for dim in each.dims] for each in exe.inputs]
    return [*exe(*(rng.standard_normal(shape, np.float32) for shape in shapes)).values()]


@pytest.mark.parametrize("case", WRITTEN)
def test_parts_are_written_where_they_belong(case: str) -> None:
    module = module_of(*WRITTEN[case])
    lowered = lower(module, "reference", pipeline=JOINED)
    assert not any(isinstance(op, KernelOp) and op.joins is not None for op in lowered.ops)
    assert calls(module, JOINED) < calls(module, COPIED)


OTHERS = [("cpu{features=generic}", "columns"), ("reference", "chain"), ("reference", "images")]


@pytest.mark.parametrize(("target", "case"), [*(("cpu", case) for case in WRITTEN), *OTHERS])
def test_results_are_the_same_bits(target: str, case: str) -> None:
    module = module_of(*WRITTEN[case])
    for count in COUNTS if target == "cpu" else (3,):
        copied = results(module, target, COPIED, T=count, S=2)
        for one, other in zip(results(module, target, JOINED, T=count, S=2), copied, strict=True):
            np.testing.assert_array_equal(one, other)
    assert copied


def test_who_makes_the_last_part_has_the_sources_of_the_whole() -> None:
    module = module_of(["T 5", "T 7"], joined(1))
    for n, op in enumerate(op for op in module.walk() if op.name.startswith("nn.")):
        op.attributes["lamina.src"] = ArrayAttr([StringAttr(f"/{n}")])
    lowered = lower(module, "reference", pipeline="outline-groups,lower-groups,plan-joins")
    named = [op.attributes["lamina.src"] for op in lowered.walk() if isinstance(op, LaunchOp)]
    assert [[each.data for each in names] for names in named] == [["/0"], ["/2", "/1"]]


def test_a_chain_is_one_buffer() -> None:
    lowered = lower(module_of(["T 9"], chain), "reference", pipeline="outline-groups,lower-groups")
    before = sum(isinstance(op, AllocOp) for op in lowered.walk())
    joined = lower(lowered, "reference", pipeline="plan-joins")
    assert before == 6
    assert not any(isinstance(op, AllocOp) for op in joined.walk())


COPIES: dict[str, tuple[list[str], Build, str]] = {
    "an input": (["T 5"], lambda add, x: {"y": add(nn.ConcatOp([x, powers(add, x)], 1))}, JOINED),
    "twice": (
        ["T 5"],
        lambda add, x: {"y": add(nn.ConcatOp([p := powers(add, x), add(nn.NegOp(p)), p], 1))},
        JOINED,
    ),
    "an output": (
        ["T 5"],
        lambda add, x: {"p": (p := powers(add, x)), "y": add(nn.ConcatOp([p, powers(add, p)], 1))},
        JOINED,
    ),
    "not at a line": (["T 3", "T 3"], joined(0), JOINED),
    "columns where threads read them": (["T 3", "T 3"], joined(1), LINES),
}


@pytest.mark.parametrize("case", COPIES)
def test_what_cannot_be_written_in_place_is_copied(case: str) -> None:
    shapes, build, pipeline = COPIES[case]
    module = module_of(shapes, build)
    assert calls(module, pipeline) == calls(module, COPIED)
    for one, other in zip(
        results(module, "cpu", pipeline, T=5), results(module, "cpu", COPIED, T=5), strict=True
    ):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("depth", "copies"), [("16", 1), ("S", 0)])
def test_a_product_reads_rows_apart_where_their_length_is_no_number(
    depth: str, copies: int
) -> None:
    def build(add: Any, x: SSAValue, z: SSAValue, w: SSAValue) -> dict[str, SSAValue]:
        p = powers(add, x)
        y = add(nn.ConcatOp([p, powers(add, z)], 1))
        return {"y": y, "product": add(nn.DotGeneralOp(p, w, [(1, 0)]))}

    module = module_of([f"T {depth}", f"T {depth}", f"{depth} 32"], build)
    joined, copied = (
        each.replace("lower-groups", "schedule-groups,lower-groups") for each in (JOINED, COPIED)
    )
    assert calls(module, copied) - calls(module, joined) == 1 - copies
    for one, other in zip(
        results(module, "cpu", joined, T=5, S=16),
        results(module, "cpu", copied, T=5, S=16),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


def columns() -> tuple[Plan, list[SSAValue]]:
    plan = Plan()
    x, y = plan.arg("input", "T"), plan.arg("output", "32*T")
    a = plan.alloc("32*T", "a")
    parts = [plan.columns(a, "0", 20), plan.columns(a, "80", 12)]
    for part, name in zip(parts, ("left", "right"), strict=True):
        part.name_hint = name
    return plan, [x, y, a, *parts]


def test_columns_side_by_side_are_written_at_once() -> None:
    plan, (x, y, a, left, right) = columns()
    plan.launch(([x, left], ["read", "write"], []), ([x, right], ["read", "write"], []))
    plan.copy(a, y)
    verify(planned(plan.module()))


def column_view(module: ModuleOp, name: str) -> ViewOp:
    return next(
        op
        for op in module.walk()
        if isinstance(op, ViewOp) and op.columns and op.y.name_hint == name
    )


@pytest.mark.parametrize(
    ("offset", "why"),
    [("76", "they may overlap"), ("84", "cannot prove that %right, T times 48 bytes, 128 apart,")],
)
def test_columns_that_overlap_are_refused(offset: str, why: str) -> None:
    plan, (x, y, a, left, right) = columns()
    plan.launch(([x, left], ["read", "write"], []), ([x, right], ["read", "write"], []))
    plan.copy(a, y)
    module = planned(plan.module())
    move(column_view(module, "right"), offset)
    with pytest.raises(LoweringError, match=why):
        verify(module)


def test_a_column_written_over_before_it_is_read_is_refused() -> None:
    plan, (x, y, _, left, right) = columns()
    plan.copy(x, left)
    plan.copy(x, right)
    plan.launch(([left, right, y], ["read", "read", "write"], []))
    module = planned(plan.module())
    verify(module)
    move(column_view(module, "right"), "76")
    with pytest.raises(LoweringError, match="@n2 reads %left, but @n1 wrote %a over it"):
        verify(module)


def test_rows_apart_are_for_kernels_that_take_them_so() -> None:
    plan, (x, y, a, left, right) = columns()
    plan.launch(([x, left], ["read", "write"], []), ([x, right], ["read", "write"], []))
    plan.copy(a, y)
    module = plan.module()
    Rewriter.replace_value_with_new_type(plan.kernels[0].memrefs[1], left.type.memref)
    with pytest.raises(LoweringError, match="@n0 takes the rows of %left one after another"):
        verify(module)
