"""Convolutions by transforms: their matrices, their meaning, and their kernels."""

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from group_module import Body, arrays_of, compare, module_of
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

import lamina
from lamina.dialects import nn
from lamina.dialects.tensors import extents, tensor
from lamina.dialects.toom_cook import POINTS, filtering
from lamina.frontend.graph import Graph
from lamina.frontend.model import Weight, Weights
from lamina.passes.choose_winograd import ChooseWinogradPass

Array = npt.NDArray[Any]


def winograd(x: SSAValue, w: SSAValue, outputs: int, size: int, *pads: int) -> nn.WinogradOp:
    images, height, width = extents(x.type)[:3]
    rows = [height + pads[0] + pads[1] - 2, width + pads[2] + pads[3] - 2]
    y = tensor(f32, [images * rows[0] * rows[1], outputs])
    return nn.WinogradOp(x, w, y, tile=size, window=3, pads=pads)


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("results", [n - 1 for n in POINTS])
def test_the_matrices_filter_exactly(results: int) -> None:
    found = filtering(results, 3)
    rng = np.random.default_rng(results)
    g = [Fraction(int(n)) for n in rng.integers(-9, 9, 3)]
    d = [Fraction(int(n)) for n in rng.integers(-9, 9, results + 2)]
    times = [np.dot(p, g) * np.dot(q, d) for p, q in zip(found.g, found.b, strict=True)]
    assert [np.dot(row, times) for row in found.a] == [
        sum(g[k] * d[i + k] for k in range(3)) for i in range(results)
    ]


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("shape", [(0, 5, 5), (1, 1, 1), (3, 3, 31), (2, 8, 7)])
def test_it_means_what_its_decomposition_means(size: int, shape: tuple[int, ...]) -> None:
    def found(pipeline: str) -> Array:
        graph = Graph(Weights((), "the test"))
        x = graph.input("x", f32, ["B", "H", "W", 4])
        w = graph.input("w", f32, [(size + 2) ** 2, 1, 4, 16])
        graph.output("y", graph.add(winograd(x, w, 13, size, 1, 1, 0, 2)))
        call = lamina.compile(graph.finish(), "reference", pipeline=pipeline, weights={})
        return call(x=normal(0, *shape, 4), w=normal(1, (size + 2) ** 2, 1, 4, 16))["y"]

    np.testing.assert_allclose(found("decompose-composites"), found(""), rtol=1e-4, atol=2e-3)


SIZES = [{"m": 6, "s": 3, "b": 8}, {"m": 8, "s": 8, "n": 32, "r": 32, "b": 24}]


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("schedule", SIZES)
def test_its_kernel_computes_what_it_means(size: int, schedule: dict[str, int]) -> None:
    # The end is one that is done in registers, or one that takes a row of results after the other.
    end = nn.ReluOp if size == 2 else nn.SiluOp

    def build(body: Body) -> SSAValue:
        x = body.arg(tensor(f32, ["B", "H", 5, 20]))
        w = body.arg(tensor(f32, [(size + 2) ** 2, 4, 20, 16]))
        y = body.add(winograd(x, w, 50, size, 2, 1, 1, 0))
        return body.add(end(y))

    module = module_of(build, "winograd", **schedule)
    cases = ((1, 1), (3, 4), (1, 31), (0, 3))
    compare(module, *(arrays_of(module, B=b, H=h) for b, h in cases), atol=2e-3, rtol=1e-4)


class Layer(Graph):
    """A convolution with padding all around and a bias, of images of any number and extent."""

    def __init__(self, depth: int, outputs: int) -> None:
        self.arrays = {
            "w": normal(2, outputs, 3, 3, depth) / np.float32(3 * depth**0.5),
            "b": normal(3, outputs),
        }
        super().__init__(Weights([Weight.of(*each) for each in self.arrays.items()], "the test"))
        x = self.input("x", f32, ["B", "H", "W", depth])
        conv = nn.ConvOp(x, self.weight("w", self.arrays["w"].shape), pads=(1, 1, 1, 1))
        y, kind = self.add(conv), tensor(f32, ["B", "H", "W", outputs])
        bias = self.add(
            nn.BroadcastOp(self.weight("b", (outputs,)), [3], [*extents(y.type)[:3], outputs])
        )
        assert y.type == kind
        self.output("y", self.add(nn.AddOp(y, bias)))

    def compiled(self, target: str = "cpu", **how: Any) -> Any:
        return lamina.compile(self.finish(), target, weights=self.weights, **how)

    def expected(self, x: Array) -> Array:
        """The result in f64."""
        wide = np.pad(x.astype(np.float64), ((0, 0), (1, 1), (1, 1), (0, 0)))
        rows, columns = x.shape[1:3]
        places = ((i, j) for i in range(3) for j in range(3))
        each = (
            wide[:, i : i + rows, j : j + columns] @ self.arrays["w"][:, i, j].T for i, j in places
        )
        return sum(each, start=np.float64(0)) + self.arrays["b"]


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 31), (0, 4, 4), (3, 14, 9)])
@pytest.mark.parametrize(("depth", "outputs"), [(16, 16), (36, 40), (100, 33)])
def test_convolutions_are_near_the_exact_ones(
    shape: tuple[int, ...], depth: int, outputs: int
) -> None:
    layer, x = Layer(depth, outputs), normal(4, *shape, depth)
    exe, expected = layer.compiled(), layer.expected(x)
    assert any("winograd" in name for name in exe.plan.kernels)
    most = np.abs(expected).max(initial=1.0)
    np.testing.assert_allclose(exe(x=x)["y"], expected, rtol=0, atol=1e-5 * most)


def test_a_result_has_the_same_bits_in_every_batch_and_on_every_number_of_threads() -> None:
    x = normal(5, 5, 13, 10, 32)
    one, two = (Layer(32, 64).compiled(threads=n) for n in (1, 2))
    alone = np.concatenate([one(x=x[i : i + 1])["y"] for i in range(5)])
    np.testing.assert_array_equal(alone, two(x=x)["y"])


def test_a_direct_convolution_keeps_nan_where_it_is_met() -> None:
    x = normal(6, 1, 9, 9, 16)
    x[0, 0, 0] = np.nan
    exe = Layer(16, 16).compiled("cpu{convolutions=direct}")
    assert not any("winograd" in name for name in exe.plan.kernels)
    assert np.isnan(exe(x=x)["y"][0]).any(-1).nonzero()[0].max() == 1


def test_an_option_that_there_is_not_is_refused() -> None:
    with pytest.raises(
        lamina.InputError, match="convolutions: expected auto or direct, got 'fast'"
    ):
        Layer(16, 16).compiled("cpu{convolutions=fast}")


def test_large_weights_of_few_places_take_the_smaller_tiles() -> None:
    def tile(side: int, depth: int) -> int:
        graph = Graph(Weights((), "the test"))
        x, w = (
            graph.input("x", f32, [1, side, side, depth]),
            graph.input("w", f32, [depth, 3, 3, depth]),
        )
        return ChooseWinogradPass().tile(nn.ConvOp(x, w, pads=(1, 1, 1, 1)))

    assert (tile(56, 64), tile(7, 512), tile(56, 8)) == (4, 2, 0)


def test_weights_that_do_not_fit_their_tile_are_refused() -> None:
    graph = Graph(Weights((), "the test"))
    x, w = graph.input("x", f32, [1, 4, 4, 4]), graph.input("w", f32, [35, 1, 4, 16])
    with pytest.raises(Exception, match="winograd: weights"):
        winograd(x, w, 16, 4, 1, 1, 1, 1).verify()
