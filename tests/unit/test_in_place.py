"""A kernel says which operand a result may overwrite, and then does so without harm."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from group_module import Body, arrays_of, module_of
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from lamina.compiler import lower
from lamina.dialects import nn, tile
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents
from lamina.targets.reference.dtypes import dtype_of
from lamina.targets.reference.kernel import run_kernel

T = Dim.symbol("T")


def gated(body: Body) -> SSAValue:
    x, y = body.arg("f32[T, 33]"), body.arg("f32[T, 33]")
    return body.add(nn.MulOp(body.add(nn.SiluOp(x)), y))


def softmax(body: Body) -> SSAValue:
    return body.add(nn.SoftmaxOp(body.arg("f32[T, 65]"), 1))


def softmax_and_more(body: Body) -> list[SSAValue]:
    x = body.arg("f32[T, 65]")
    return [body.add(nn.SoftmaxOp(x, 1)), body.add(nn.NegOp(x))]


def norm_and_more(body: Body) -> list[SSAValue]:
    x = body.arg("f32[T, 65]")
    y = body.add(nn.RmsNormOp(x, body.arg("f32[65]"), 1e-5))
    return [body.add(nn.TanhOp(y)), body.add(nn.AddOp(x, y))]


def late_operand(body: Body) -> list[SSAValue]:
    x, y = body.arg("f32[T, 65]"), body.arg("f32[T, 65]")
    return [body.add(nn.ExpOp(x)), body.add(nn.AddOp(x, y))]


def shifted(body: Body) -> SSAValue:
    x, y = body.arg("f32[T, 65]"), body.arg("f32[T, 65]")
    turned = body.add(nn.SliceOp(x, [0, 64], [T, 65], [1, -1]))
    return body.add(nn.AddOp(turned, y))


def transposed(body: Body) -> SSAValue:
    return body.add(nn.TransposeOp(body.arg("f32[T, T]"), [1, 0]))


def sums(body: Body) -> list[SSAValue]:
    x, y = body.arg("f32[T, 65]"), body.arg("f32[T]")
    total = body.add(nn.AddOp(body.add(nn.ReduceOp(x, "add", [1])), y))
    return [total, body.add(nn.NegOp(x))]


def product(body: Body, left: SSAValue) -> SSAValue:
    y = body.add(nn.DotGeneralOp(left, body.arg("f32[3, 48, 16]"), [(1, 1)]))
    return body.add(nn.ReshapeOp(y, [T, 48]))


def residual(body: Body) -> SSAValue:
    y = product(body, body.arg("f32[T, 48]"))
    return body.add(nn.AddOp(y, body.arg("f32[T, 48]")))


def residual_of_itself(body: Body) -> SSAValue:
    x = body.arg("f32[T, 48]")
    return body.add(nn.AddOp(product(body, x), x))


def batches(body: Body) -> SSAValue:
    a, b = body.arg("f32[3, T, 7]"), body.arg("f32[3, 7, 33]")
    y = body.add(nn.DotGeneralOp(a, b, [(2, 1)], [(0, 0)]))
    return body.add(nn.SubOp(y, body.arg("f32[3, T, 33]")))


def columns(body: Body) -> SSAValue:
    x = body.arg("f32[T, 5, 33]")
    y = body.add(nn.ReduceOp(x, "add", [1]))
    return body.add(nn.MulOp(y, body.arg("f32[T, 33]")))


CASES: list[tuple[Callable[[Body], Any], str, dict[str, int], list[tuple[int, int]]]] = [
    (gated, "rows", {}, [(0, 2), (1, 2)]),
    (softmax, "rows", {}, [(0, 1)]),
    (softmax_and_more, "rows", {}, [(0, 2)]),
    (norm_and_more, "rows", {}, [(0, 2), (0, 3)]),
    (late_operand, "rows", {}, [(0, 2), (0, 3), (1, 3)]),
    (shifted, "rows", {}, [(1, 2)]),
    (transposed, "rows", {}, []),
    (sums, "rows", {}, [(0, 3)]),
    (residual, "linear", {"m": 1, "n": 48}, [(2, 3)]),
    (residual, "linear", {"m": 8, "n": 16}, [(2, 3)]),
    (residual_of_itself, "linear", {"m": 8, "n": 16}, []),
    (batches, "dot", {"m": 4, "n": 16}, [(2, 3)]),
    (columns, "reduce", {}, [(1, 2)]),
]


def kernel_of(module: ModuleOp) -> tile.KernelOp:
    lowered = lower(module, "reference", "lower-groups")
    return next(op for op in lowered.ops if isinstance(op, tile.KernelOp))


@pytest.mark.parametrize(("build", "anchor", "schedule", "expected"), CASES)
def test_results_may_overwrite_what_is_read_where_they_are_written(
    build: Callable[[Body], Any],
    anchor: str,
    schedule: dict[str, int],
    expected: list[tuple[int, int]],
) -> None:
    module = module_of(build, anchor, **schedule)
    kernel = kernel_of(module)
    assert list(tile.pairs(kernel.aliases)) == expected
    group = next(op for op in module.ops if isinstance(op, nn.GroupOp))
    results = [y.type for y in group.body.block.last_op.operands]
    for rows in (1, 5, 19):
        arrays = arrays_of(module, T=rows)
        apart = run(kernel, arrays, results, rows, {})
        for operand, result in expected:
            found = run(kernel, arrays, results, rows, {result: operand})
            np.testing.assert_equal(found, apart)


def run(
    kernel: tile.KernelOp,
    arrays: list[np.ndarray],
    results: list[Any],
    rows: int,
    same: dict[int, int],
) -> list[np.ndarray]:
    """The results of a kernel, of which some lie in the memory of an operand."""
    memrefs = [array.copy() for array in arrays]
    for n, kind in enumerate(results, len(arrays)):
        shape = [dim.evaluate({"T": rows}) for dim in extents(kind)]
        memrefs.append(memrefs[same[n]] if n in same else np.zeros(shape, dtype_of(kind)))
    symbols = {name.data: rows for name in kernel.symbols if name.data != tile.WORKERS}
    run_kernel(kernel, memrefs, symbols, seed=rows)
    return memrefs[len(arrays) :]
