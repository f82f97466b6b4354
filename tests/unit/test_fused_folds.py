"""Reductions along rows, and what maps the rows by them: one kernel, where a row needs itself only."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import FloatAttr, ModuleOp, f32
from xdsl.ir import SSAValue

import lamina
from lamina.compiler import lower
from lamina.dialects import nn
from lamina.dialects.tensors import extents, tensor
from lamina.dialects.tile import KernelOp
from lamina.frontend.graph import Graph
from lamina.frontend.model import Weights

PASSES = "outline-groups,fuse-elementwise,lower-groups"


def module_of(shape: str, build: Callable[[Any, SSAValue], SSAValue]) -> ModuleOp:
    graph = Graph(Weights((), "the test"))
    graph.output("y", build(graph.add, graph.input("x", f32, shape.split())))
    return graph.finish()


def kernels_of(module: ModuleOp) -> int:
    ops = lower(module, "reference", pipeline=PASSES).ops
    return sum(isinstance(op, KernelOp) for op in ops)


def total(add: Any, x: SSAValue) -> SSAValue:
    """The sum of each row, as one element of it."""
    shape = extents(x.type)
    y = add(nn.ReduceOp(x, "add", [len(shape) - 1]))
    return add(nn.ReshapeOp(y, [*shape[:-1], 1]))


def over(add: Any, x: SSAValue, like: SSAValue) -> SSAValue:
    shape = extents(like.type)
    return add(nn.BroadcastOp(x, range(len(shape)), shape))


def norm(add: Any, x: SSAValue) -> SSAValue:
    centred = add(nn.SubOp(x, over(add, add(nn.TanhOp(total(add, x))), x)))
    squares = total(add, add(nn.MulOp(centred, centred)))
    one = add(nn.ConstantOp(FloatAttr(1.0, f32), tensor(f32, extents(squares.type))))
    scale = add(nn.SqrtOp(add(nn.AddOp(squares, one))))
    return add(nn.DivOp(centred, over(add, scale, x)))


def columns(add: Any, x: SSAValue) -> SSAValue:
    """What a row's sum does to a column."""
    sums = add(nn.ReduceOp(x, "add", [1]))
    return add(nn.MulOp(x, add(nn.BroadcastOp(sums, [1], extents(x.type)))))


def widened(add: Any, x: SSAValue) -> SSAValue:
    return add(nn.BroadcastOp(total(add, x), [0, 1], [extents(x.type)[0], 9]))


@pytest.mark.parametrize("shape", ["T 7", "2 T 192", "1 T 1000", "T 1", "T L"])
def test_a_norm_in_steps_is_one_kernel(shape: str) -> None:
    assert kernels_of(module_of(shape, norm)) == 1


@pytest.mark.parametrize("target", ["reference", "cpu"])
@pytest.mark.parametrize("count", [0, 1, 3, 31])
@pytest.mark.parametrize("shape", ["T 7", "2 T 192", "1 T 1000", "T 1", "T 33"])
def test_a_norm_in_steps_gives_what_it_means(shape: str, count: int, target: str) -> None:
    sizes = [count if n == "T" else int(n) for n in shape.split()]
    x = np.random.default_rng(0).normal(0, 1, sizes).astype(np.float32)
    (found,) = lamina.compile(module_of(shape, norm), target)(x).values()
    centred = x - np.tanh(x.sum(-1, keepdims=True))
    expected = centred / np.sqrt((centred * centred).sum(-1, keepdims=True) + 1)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(("shape", "build"), [("5 5", columns), ("T T", columns), ("T 8", widened)])
def test_a_sum_that_goes_elsewhere_is_a_kernel_of_its_own(shape: str, build: Any) -> None:
    assert kernels_of(module_of(shape, build)) == 2


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_a_sum_of_a_row_goes_to_a_column(target: str) -> None:
    x = np.random.default_rng(0).normal(0, 1, (5, 5)).astype(np.float32)
    (found,) = lamina.compile(module_of("5 5", columns), target)(x).values()
    np.testing.assert_allclose(found, x * x.sum(1), rtol=1e-5)
