"""Products of other rows, K and columns share a kernel, where nothing else is other."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue

import lamina
from lamina.compiler import resolve_target, run_passes
from lamina.dialects import nn
from lamina.dialects.tensors import extents
from lamina.dialects.tile import KernelOp
from lamina.frontend.graph import Graph
from lamina.frontend.model import Weight, Weights
from lamina.plugins import manager

RANDOM = np.random.default_rng(5)


class Products(Graph):
    """A graph of products `relu(x w + bias)`, whose weights are made on the way."""

    def made(self, *shape: int) -> SSAValue:
        """Return a new weight of this shape."""
        name = f"w{len(self.weights)}"
        weight = Weight.of(name, RANDOM.standard_normal(shape, np.float32))
        self.weights = Weights([*self.weights.values(), weight], "the test")
        return self.weight(name, shape)

    def product(self, rows: int | str, depth: int, columns: int) -> None:
        """Add a product as an input and an output."""
        number = len(self.weights)
        x = self.input(f"x{number}", f32, [rows, depth])
        y = self.add(nn.DotGeneralOp(x, self.made(columns, depth), [(1, 1)]))
        bias = self.add(nn.BroadcastOp(self.made(columns), [1], extents(y.type)))
        self.output(f"y{number}", self.add(nn.ReluOp(self.add(nn.AddOp(y, bias)))))


def graph_of(*shapes: tuple[int | str, int, int]) -> Products:
    graph = Products(Weights((), "the test"))
    for shape in shapes:
        graph.product(*shape)
    return graph


def kernels(*shapes: tuple[int | str, int, int]) -> list[KernelOp]:
    module: ModuleOp = graph_of(*shapes).finish()
    run_passes(manager.context(), module, resolve_target("cpu").passes())
    return [op for op in module.ops if isinstance(op, KernelOp)]


def test_products_of_any_rows_depths_and_columns_share_a_kernel() -> None:
    assert len(kernels((49, 64, 128), (196, 256, 64), (196, 128, 512))) == 1


def test_a_product_alone_keeps_its_numbers() -> None:
    (kernel,) = kernels((49, 64, 128))
    assert str(kernel.body.block.args[0].type) == "memref<49x64xf32>"


@pytest.mark.parametrize("other", [(49, 66, 128), (49, 64, 72), (49, 64, 48)])
def test_products_whose_tiles_are_filled_unlike_share_none(other: tuple[int, int, int]) -> None:
    assert len(kernels((49, 64, 128), other)) == 2


def test_products_that_fill_no_last_panel_share_a_kernel() -> None:
    assert len(kernels((49, 64, 120), (3, 32, 59))) == 1


@cache
def compiled() -> tuple[Products, Any]:
    graph = graph_of(("A", 64, 128), ("B", 20, 64), ("C", 256, 192), ("A", 64, 120), ("C", 36, 59))
    return graph, lamina.compile(graph.finish(), "cpu", weights=dict(graph.weights))


@pytest.mark.parametrize("rows", [0, 1, 3, 31, 1000])
def test_a_shared_kernel_gives_what_each_product_is(rows: int) -> None:
    graph, exe = compiled()
    assert len(exe.plan.kernels) == 4  # two, for one row and for any
    depths = (64, 20, 256, 64, 36)
    xs = [RANDOM.standard_normal((rows, depth), np.float32) for depth in depths]
    ws = [weight.array for weight in graph.weights.values()]
    for x, w, bias, y in zip(xs, ws[::2], ws[1::2], exe(*xs).values(), strict=True):
        np.testing.assert_allclose(y, np.maximum(x @ w.T + bias, 0), rtol=1e-4, atol=1e-4)
