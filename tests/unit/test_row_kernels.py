"""Kernels that go through rows mean what their groups mean, at every odd size."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from group_module import Body, arrays_of, compare, module_of
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32, i32
from xdsl.ir import SSAValue

from lamina.compiler import lower
from lamina.dialects import nn, quant
from lamina.dialects.tensors import extents, tensor

ROWS = (0, 1, 3, 31)
COLUMNS = (1, 7, 33, 128, 301)
Build = Callable[[Body, str], Any]


def activations(body: Body, n: str) -> SSAValue:
    x, y = body.arg(f"f32[T, {n}]"), body.arg(f"f32[T, {n}]")
    gate = body.add(nn.SiluOp(body.add(nn.GeluOp(x))))
    return body.add(nn.MulOp(gate, body.add(nn.ReluOp(y))))


def choice(body: Body, n: str) -> SSAValue:
    x, y = body.arg(f"f32[T, {n}]"), body.arg(f"f32[T, {n}]")
    fill = body.add(nn.ConstantOp(FloatAttr(float("-inf"), f32), x.type))
    return body.add(nn.SelectOp(body.add(nn.CompareOp("lt", x, y)), x, fill))


def integers(body: Body, n: str) -> SSAValue:
    x, y = body.arg(f"f32[T, {n}]"), body.arg(f"f32[T, {n}]")
    a, b = (body.add(nn.CastOp(v, i32)) for v in (x, y))
    three = body.add(nn.ConstantOp(IntegerAttr(3, i32), a.type))
    return body.add(nn.AbsOp(body.add(nn.SubOp(body.add(nn.DivOp(a, b)), three))))


def counted(body: Body, n: str) -> SSAValue:
    x, y = body.arg(f"f32[T, {n}]"), body.arg(f"f32[T, {n}]")
    row, column = (body.add(nn.IotaOp(dim, tensor(f32, extents(x.type)))) for dim in (0, 1))
    return body.add(nn.AddOp(body.add(nn.MulOp(x, row)), body.add(nn.AddOp(y, column))))


def broadcast(body: Body, n: str) -> SSAValue:
    x, w, c = body.arg(f"f32[T, {n}]"), body.arg(f"f32[{n}]"), body.arg("f32[T, 1]")
    shape = extents(x.type)
    wide = body.add(nn.BroadcastOp(w, [1], shape))
    per_row = body.add(nn.BroadcastOp(c, [0, 1], shape))
    return body.add(nn.AddOp(body.add(nn.MulOp(x, wide)), per_row))


def transposed(body: Body, n: str) -> SSAValue:
    x, y = body.arg(f"f32[T, {n}]"), body.arg(f"f32[{n}, T]")
    return body.add(nn.AddOp(body.add(nn.TransposeOp(x, [1, 0])), y))


def layer_norm(body: Body, n: str) -> SSAValue:
    x, w, b = body.arg(f"f32[T, {n}]"), body.arg(f"f32[{n}]"), body.arg(f"f32[{n}]")
    return body.add(nn.LayerNormOp(x, w, b, 1e-5))


def rms_norm(body: Body, n: str) -> list[SSAValue]:
    x, w = body.arg(f"f32[T, {n}]"), body.arg(f"f32[{n}]")
    y = body.add(nn.RmsNormOp(x, w, 1e-5))
    return [body.add(nn.TanhOp(y)), y]


def softmax(body: Body, n: str) -> SSAValue:
    x = body.arg(f"f32[T, {n}]")
    two = body.add(nn.ConstantOp(FloatAttr(2.0, f32), x.type))
    return body.add(nn.SoftmaxOp(body.add(nn.MulOp(x, two)), 1))


def reduced(kind: str) -> Build:
    def build(body: Body, n: str) -> SSAValue:
        x = body.arg(f"f32[T, {n}]")
        y = body.add(nn.ReduceOp(body.add(nn.AbsOp(x)), kind, [1]))
        return body.add(nn.NegOp(y))

    return build


def deviation(body: Body, n: str) -> SSAValue:
    x = body.arg(f"f32[T, {n}]")
    top = body.add(nn.ReduceOp(x, "max", [1]))
    return body.add(nn.SubOp(x, body.add(nn.BroadcastOp(top, [0], extents(x.type)))))


BUILDS: dict[str, Build] = {
    "activations": activations,
    "choice": choice,
    "integers": integers,
    "counted": counted,
    "broadcast": broadcast,
    "transposed": transposed,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "softmax": softmax,
    "add": reduced("add"),
    "max": reduced("max"),
    "min": reduced("min"),
    "deviation": deviation,
}


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
def test_a_kernel_of_rows_computes_its_group(build: Build, columns: int) -> None:
    module = module_of(lambda body: build(body, str(columns)), "rows")
    compare(module, *(arrays_of(module, T=rows) for rows in ROWS), atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
def test_a_row_may_have_a_symbolic_length(build: Build) -> None:
    module = module_of(lambda body: build(body, "N"), "rows")
    cases = [
        arrays_of(module, T=rows, N=columns) for rows, columns in ((0, 7), (2, 1), (3, 33), (2, 64))
    ]
    compare(module, *cases, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("kind", ["add", "mul", "max", "min"])
def test_a_reduction_of_nothing_is_neutral(kind: str) -> None:
    module = module_of(lambda body: reduced(kind)(body, "N"), "rows")
    compare(module, arrays_of(module, T=3, N=0))


@pytest.mark.parametrize("build", [softmax, rms_norm, layer_norm, reduced("max"), reduced("add")])
@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_spreads_as_in_the_group(build: Build, odd: float) -> None:
    module = module_of(lambda body: build(body, "33"), "rows")
    arrays = arrays_of(module, T=3)
    arrays[0][1, 20] = odd
    compare(module, arrays, atol=1e-5, rtol=1e-5)


def kernel_text(build: Build, columns: int | str) -> str:
    module = module_of(lambda body: build(body, str(columns)), "rows")
    return str(lower(module, "reference", pipeline="lower-groups"))


def test_results_of_whole_lines_go_past_the_cache_if_none_keeps_them() -> None:
    assert "nontemporal" in kernel_text(softmax, 48)
    assert "nontemporal" not in kernel_text(softmax, 33)
    assert "nontemporal" not in kernel_text(reduced("max"), 48)


def test_rows_are_few_in_a_program_unless_they_are_long() -> None:
    grid = r'grid = \["(.*?)"\]'
    found = [re.search(grid, kernel_text(rms_norm, n)) for n in (5, 576, 4096)]
    assert [each[1] for each in found if each] == ["ceildiv(n0, 8)", "ceildiv(n0, 4)", "n0"]


def flat(body: Body, n: str) -> SSAValue:
    x, y = body.arg(f"f32[{n}]"), body.arg(f"f32[{n}]")
    count = body.add(nn.IotaOp(0, x.type))
    return body.add(nn.AddOp(body.add(nn.MulOp(x, count)), y))


def test_programs_share_a_long_row() -> None:
    grids = [re.search(r'grid = \["(.*?)"\]', kernel_text(flat, n)) for n in (2048, 2049, "N")]
    assert [each[1] for each in grids if each] == ["1", "2", "ceildiv(n0, 2048)"]
    assert "aliases = [[0 : i64, 2 : i64], [1 : i64, 2 : i64]]" in kernel_text(flat, "N")


def test_a_long_row_is_mapped_part_by_part() -> None:
    module = module_of(lambda body: flat(body, "N"), "rows")
    compare(module, *(arrays_of(module, N=n) for n in (0, 1, 33, 2048, 2049, 4100)))
    module = module_of(lambda body: flat(body, "4128"), "rows")
    compare(module, arrays_of(module))


@pytest.mark.parametrize("terms", [1, 2])
def test_blocks_whose_scale_is_of_no_use_have_no_quants(terms: int) -> None:
    x = np.random.default_rng(0).normal(0, 1, (6, 64)).astype(np.float32)
    x[0, 3], x[1, 40], x[2, :32], x[3, 7] = np.nan, np.inf, 0, -np.inf
    x[4] *= np.float32(1e-38)
    x[5] *= np.float32(1e38)

    def build(body: Body) -> list[SSAValue]:
        return list(body.add(quant.QuantizeOp(body.arg("f32[T, 64]"), terms)))

    compare(module_of(build, "rows"), [x])
