"""Kernels of windows: how many there are, how long they are, and known values of hard geometries."""

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue

import lamina
from lamina.compiler import resolve_target, run_passes
from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.dialects.tile import KernelOp
from lamina.frontend.graph import Graph
from lamina.frontend.model import Weight, Weights
from lamina.plugins import manager
from lamina.targets.cpu.features import detect
from lamina.targets.cpu.lowering import NodeTable, emit_kernel


class Network(Graph):
    """A graph of convolutions whose weights are made on the way."""

    def conv(self, x: SSAValue, *shape: int, **how: object) -> SSAValue:
        """Convolve `x` with a weight of this shape."""
        name = f"w{len(self.weights)}"
        made = Weight.of(name, np.ones(shape, np.float32))
        self.weights = Weights([*self.weights.values(), made], "the test")
        return self.add(nn.ConvOp(x, self.weight(name, shape), **how))  # pyright: ignore


def lowered(graph: Graph) -> list[KernelOp]:
    """The kernels of a graph on the CPU."""
    module: ModuleOp = graph.finish()
    run_passes(manager.context(), module, resolve_target("cpu").passes())
    return [op for op in module.ops if isinstance(op, KernelOp)]


def network() -> Network:
    return Network(Weights((), "the test"))


def test_convolutions_of_images_of_any_extent_share_a_kernel() -> None:
    graph = network()
    for n, size in enumerate((14, 28, 56)):
        x = graph.input(f"x{n}", f32, [1, size, size, 16])
        graph.output(f"y{n}", graph.conv(x, 32, 3, 3, 16, strides=(2, 2), pads=(1, 1, 1, 1)))
    assert len(lowered(graph)) == 1


@pytest.mark.parametrize(
    ("channels", "outputs", "groups"), [(64, 64, 1), (48, 48, 48), (3, 64, 1), (12, 20, 4)]
)
def test_a_kernel_with_its_end_is_short(channels: int, outputs: int, groups: int) -> None:
    graph = network()
    x = graph.input("x", f32, ["B", "H", "W", channels])
    y = graph.conv(x, outputs, 3, 3, channels // groups, pads=(1, 1, 1, 1), groups=groups)
    graph.output("y", graph.add(nn.SiluOp(y)))
    (kernel,) = lowered(graph)
    text = emit_kernel(kernel, detect(), NodeTable()).text
    assert text.count("\n") <= 600


@pytest.mark.parametrize("groups", [2, 4, 8])
def test_a_convolution_that_shuffles_its_channels_is_one_short_kernel(groups: int) -> None:
    graph = network()
    x = graph.input("x", f32, ["B", "H", "W", 48])
    y = graph.conv(x, 136, 1, 1, 48 // groups, groups=groups)
    rows = ["B", "H", "W"]
    y = graph.add(nn.ReluOp(y))
    y = graph.add(nn.ReshapeOp(y, [*map(Dim.symbol, rows), groups, 136 // groups]))
    y = graph.add(nn.TransposeOp(y, [0, 1, 2, 4, 3]))
    graph.output("y", graph.add(nn.ReshapeOp(y, [*map(Dim.symbol, rows), 136])))
    (kernel,) = lowered(graph)
    text = emit_kernel(kernel, detect(), NodeTable()).text
    assert text.count("\n") <= 700


def pooled(x: list[float], window: int, **how: object) -> list[float]:
    """The means over windows of a line, on the CPU."""
    graph = network()
    line = graph.input("x", f32, [1, len(x), 1])
    op = nn.PoolOp(line, "mean", [window], ceil=True, **how)  # pyright: ignore
    graph.output("y", graph.add(op))
    found = lamina.compile(graph.finish(), target="cpu")(x=np.array(x, np.float32)[None, :, None])
    return found["y"].ravel().tolist()


def test_a_mean_counts_nothing_beyond_the_padding() -> None:
    assert pooled([1, 2, 3, 4, 5, 6], 3, strides=[2]) == [2, 4, 5.5]
    assert pooled([6, 6, 6], 4, strides=[3], pads=[1, 1], include_pad=True) == [4.5, 3]


def test_a_last_window_begins_inside() -> None:
    graph = network()
    x = graph.input("x", f32, [1, 17, 17, 1])
    op = nn.PoolOp(x, "mean", (2, 2), strides=(2, 2), pads=(1, 1, 1, 1), ceil=True)
    assert [str(n) for n in op.positions] == ["1", "9", "9"]


def test_what_is_added_behind_a_transposed_convolution_counts() -> None:
    graph = network()
    x, w = graph.input("x", f32, [1, 28, 4]), graph.input("w", f32, [4, 3, 2])
    op = nn.ConvTransposeOp(x, w, strides=(2,), pads=(1, 1), extra=(1,))
    assert op.y.type == graph.input("y", f32, [1, 56, 2]).type


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_an_image_that_is_smaller_than_a_window_is_refused(target: str) -> None:
    graph = network()
    x = graph.input("x", f32, [1, "H", 3, 16])
    graph.output("y", graph.conv(x, 16, 3, 3, 16))
    call = lamina.compile(graph.finish(), target, weights=graph.weights)
    with pytest.raises(lamina.InputError, match="short"):
        call(x=np.zeros((1, 1, 3, 16), np.float32))


def test_lines_whose_length_may_be_too_short_are_put_together() -> None:
    graph = network()
    x = graph.input("x", f32, ["B", "N", 16])
    lines = [graph.conv(x, 32, 7, 16) for _ in range(2)]
    graph.output("y", graph.add(nn.ConcatOp(lines, 0)))
    x = np.random.default_rng(0).standard_normal((2, 9, 16)).astype(np.float32)
    y = lamina.compile(graph.finish(), "cpu", weights=graph.weights)(x=x)["y"]
    sums = np.stack([x[:, i : i + 7].sum((1, 2)) for i in range(3)], 1)[..., None]
    np.testing.assert_allclose(y, np.broadcast_to(np.tile(sums, (2, 1, 1)), y.shape), atol=1e-4)
