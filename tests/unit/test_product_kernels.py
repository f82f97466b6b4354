"""Products mean what their groups mean: every kind of weight, tile, prologue and end."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from group_module import Body, arrays_of, compare, module_of
from xdsl.dialects.builtin import FloatAttr, ModuleOp, f32
from xdsl.ir import SSAValue

from lamina.dialects import nn, quant
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents

ROWS = (0, 1, 3, 31)
T = Dim.symbol("T")

Weight = Callable[[Body, Any, int, int], SSAValue]
"""A product of `x` with a weight of N columns and K rows: (body, x, N, K) -> [T, N]."""


def floats(kind: str) -> Weight:
    def build(body: Body, x: Any, columns: int, depth: int) -> SSAValue:
        tiles = -(-columns // 16)
        w = body.arg(f"{kind}[{tiles}, {depth}, 16]")
        wide = w if kind == "f32" else body.add(nn.CastOp(w, f32))
        y = body.add(nn.DotGeneralOp(x, wide, [(1, 1)]))
        y = body.add(nn.ReshapeOp(y, [T, tiles * 16]))
        return y if tiles * 16 == columns else body.add(nn.SliceOp(y, [0, 0], [T, columns]))

    return build


class Form(NamedTuple):
    """A packed form: the type of scales, and how many columns share one."""

    bits: int
    zero: int
    offset: bool
    scales: str = "f16"
    group: int = 32

    def parts(self, body: Body, columns: int, depth: int) -> list[SSAValue]:
        tiles, groups = -(-columns // 16), depth // self.group
        quants = body.arg(f"i8[{tiles}, {depth // 32}, {self.bits}, 16, 4]")
        scales = f"{self.scales}[{tiles}, {groups}, 16]"
        return [quants, *(body.arg(scales) for _ in range(1 + self.offset))]


def dequantised(form: Form) -> Weight:
    def build(body: Body, x: Any, columns: int, depth: int) -> SSAValue:
        parts = form.parts(body, columns, depth)
        w = body.add(quant.DequantizeOp(parts, columns, depth, zero=form.zero))
        return body.add(nn.DotGeneralOp(x, w, [(1, 1)]))

    return build


def eight_bit(form: Form) -> Weight:
    def build(body: Body, x: Any, columns: int, depth: int) -> SSAValue:
        parts = form.parts(body, columns, depth)
        return body.add(quant.LinearOp(parts, x, columns, zero=form.zero))

    return build


PACKED = {
    "q4_0": Form(4, 8, False),
    "q4_1": Form(4, 0, True),
    "q4_k": Form(4, 0, True, "f32"),
    "q5_0": Form(8, 16, False),
    "q6_k": Form(8, 32, False, "f32", 16),
    "both": Form(8, 3, True),
    "both halves": Form(4, 3, True, "f16", 16),
    "plain halves": Form(4, 0, False, "f16", 16),
}
OF_FLOATS: dict[str, Weight] = {kind: floats(kind) for kind in ("f32", "f16")} | {
    f"dequantised {name}": dequantised(form) for name, form in PACKED.items()
}
WEIGHTS = OF_FLOATS | {name: eight_bit(form) for name, form in PACKED.items()}


def left(body: Body, name: str, depth: int, rows: str = "T") -> Any:
    """The left operand that a weight takes: numbers, or quants, scales and sums."""
    if name in OF_FLOATS:
        return body.arg(f"f32[{rows}, {depth}]")
    scales = f"f32[{rows}, {depth // 32}]"
    return body.arg(f"i8[{rows}, {depth}]"), body.arg(scales), body.arg(scales)


def check(module: ModuleOp, rows: tuple[int, ...] = ROWS) -> None:
    """Compare, in units of the largest number: sums of large products round."""
    compare(module, *(arrays_of(module, T=count) for count in rows), atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("schedule", [(1, 48, 8), (8, 16, 4), (3, 48, 5)])
@pytest.mark.parametrize("name", WEIGHTS)
def test_a_product(name: str, schedule: tuple[int, int, int]) -> None:
    depth = 33 if name in ("f32", "f16") else 64

    def build(body: Body) -> SSAValue:
        return WEIGHTS[name](body, left(body, name, depth), 48, depth)

    check(module_of(build, "linear", **dict(zip("mnk", schedule, strict=True))))


@pytest.mark.parametrize("columns", [1, 7, 33, 301])
@pytest.mark.parametrize("name", ["f32", "dequantised q4_1", "q4_1"])
def test_the_last_tile_of_columns_may_be_padded(name: str, columns: int) -> None:
    def build(body: Body) -> SSAValue:
        return WEIGHTS[name](body, left(body, name, 32), columns, 32)

    for m, tiles in ((1, -(-columns // 16)), (8, 1)):
        check(module_of(build, "linear", m=m, n=tiles * 16, k=8), (1, 3))


def bias_and_activation(body: Body, y: SSAValue) -> SSAValue:
    shape = extents(y.type)
    bias = body.add(nn.BroadcastOp(body.arg(f"f32[{shape[1]}]"), [1], shape))
    return body.add(nn.GeluOp(body.add(nn.AddOp(y, bias))))


def residual(body: Body, y: SSAValue) -> list[SSAValue]:
    x = body.arg(f"f32[T, {extents(y.type)[1]}]")
    total = body.add(nn.AddOp(x, y))
    two = body.add(nn.ConstantOp(FloatAttr(2.0, f32), total.type))
    return [body.add(nn.MulOp(total, two)), total]


def quantised(body: Body, y: SSAValue) -> list[SSAValue]:
    return list(body.add(quant.QuantizeOp(y)))


def rotation(interleaved: bool) -> Callable[[Body, SSAValue], SSAValue]:
    def build(body: Body, y: SSAValue) -> SSAValue:
        heads = body.add(nn.ReshapeOp(y, [T, extents(y.type)[1] // 32, 32]))
        cos, sin = body.arg("f32[T, 16]"), body.arg("f32[T, 16]")
        return body.add(nn.RopeOp(heads, cos, sin, interleaved=interleaved))

    return build


ENDS: dict[str, Callable[[Body, SSAValue], Any]] = {
    "bias and activation": bias_and_activation,
    "residual": residual,
    "quantised": quantised,
    "rotated halves": rotation(False),
    "rotated pairs": rotation(True),
}


@pytest.mark.parametrize("rows", [1, 8])
@pytest.mark.parametrize("name", ["f32", "q4_1"])
@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_a_product_with_an_end(end: Callable[..., Any], name: str, rows: int) -> None:
    def build(body: Body) -> Any:
        return end(body, WEIGHTS[name](body, left(body, name, 32), 96, 32))

    check(module_of(build, "linear", m=rows, n=32, k=4))


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("name", ["f32", "dequantised q4_0", "q4_0"])
def test_two_products_of_one_left_operand(name: str, rows: int) -> None:
    def build(body: Body) -> SSAValue:
        x = left(body, name, 32)
        gate, up = (WEIGHTS[name](body, x, 33, 32) for _ in range(2))
        return body.add(nn.MulOp(body.add(nn.SiluOp(gate)), up))

    check(module_of(build, "linear", m=rows, n=16, k=8))


@pytest.mark.parametrize("norm", ["rms", "layer", "none"])
@pytest.mark.parametrize("name", ["f32", "q4_1"])
def test_a_product_whose_worker_normalises_its_row(name: str, norm: str) -> None:
    def build(body: Body) -> Any:
        x = body.arg("f32[T, 96]")
        if norm == "rms":
            x = body.add(nn.RmsNormOp(x, body.arg("f32[96]"), 1e-5))
        elif norm == "layer":
            x = body.add(nn.LayerNormOp(x, body.arg("f32[96]"), body.arg("f32[96]"), 1e-5))
        x = x if name == "f32" else tuple(body.add(quant.QuantizeOp(x)))
        return residual(body, WEIGHTS[name](body, x, 301, 96))

    check(module_of(build, "linear", m=1, n=16, k=8), (0, 1))


DOTS = {
    "rows by columns": ("f32[T, 33]", "f32[33, 7]", [(1, 0)], []),
    "rows by rows": ("f32[T, 33]", "f32[301, 33]", [(1, 1)], []),
    "batches": ("f32[3, T, 7]", "f32[3, 7, 33]", [(2, 1)], [(0, 0)]),
    "batches in the middle": ("f32[T, 3, 5, 8]", "f32[T, N, 3, 8]", [(3, 3)], [(0, 0), (1, 2)]),
    "weights by values": ("f32[T, 3, 5, N]", "f32[T, N, 3, 32]", [(3, 1)], [(0, 0), (1, 2)]),
    "a symbolic depth": ("f32[T, N]", "f32[N, 33]", [(1, 0)], []),
    "a vector": ("f32[33]", "f32[33, T]", [(0, 0)], []),
    "turned": ("f32[33, T]", "f32[33, 17]", [(0, 0)], []),
    "free dimensions": ("f32[2, T, 9]", "f32[9, 5]", [(2, 0)], []),
    "rows by many rows": ("f32[3, T, 20]", "f32[3, N, 20]", [(2, 2)], [(0, 0)]),
    "whole squares": ("f32[200, 32]", "f32[64, 32]", [(1, 1)], []),
    "rows too long to turn": ("f32[T, 300]", "f32[N, 300]", [(1, 1)], []),
}


@pytest.mark.parametrize(("a", "b", "contract", "batch"), DOTS.values(), ids=DOTS)
def test_a_product_of_two_tensors(a: str, b: str, contract: Any, batch: Any) -> None:
    def build(body: Body) -> SSAValue:
        y = body.add(nn.DotGeneralOp(body.arg(a), body.arg(b), contract, batch))
        half = body.add(nn.ConstantOp(FloatAttr(0.5, f32), y.type))
        return body.add(nn.MulOp(y, half))

    module = module_of(build, "dot")
    cases = [arrays_of(module, T=rows, N=many) for rows, many in ((0, 3), (1, 1), (5, 33), (70, 5))]
    compare(module, *cases, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", ["add", "mul", "max", "min"])
@pytest.mark.parametrize(("shape", "dim"), [("T, 33", 0), ("3, T, 7", 1), ("T, 5, 2, N", 1)])
def test_a_reduction_of_a_dimension_that_is_not_the_last(kind: str, shape: str, dim: int) -> None:
    def build(body: Body) -> SSAValue:
        x = body.add(nn.AbsOp(body.arg(f"f32[{shape}]")))
        return body.add(nn.NegOp(body.add(nn.ReduceOp(x, kind, [dim]))))

    module = module_of(build, "reduce")
    cases = [arrays_of(module, T=rows, N=many) for rows, many in ((0, 3), (1, 1), (5, 65))]
    compare(module, *cases, atol=1e-5, rtol=1e-5)


def test_rows_that_are_no_numbers_stay_apart() -> None:
    module = module_of(
        lambda body: WEIGHTS["f32"](body, left(body, "f32", 33), 48, 33), "linear", m=8, n=16, k=8
    )
    arrays = arrays_of(module, T=5)
    arrays[0][2, 7] = np.nan
    compare(module, arrays, atol=1e-4)
