"""Convolutions of other channels, images and windows share a kernel, where nothing else is other."""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue

import lamina
from lamina.compiler import resolve_target, run_passes
from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents
from lamina.dialects.tile import KernelOp
from lamina.frontend.graph import Graph
from lamina.frontend.model import Weight, Weights
from lamina.plugins import manager

RANDOM = np.random.default_rng(5)


class Line(NamedTuple):
    """A convolution of lines."""

    outputs: int = 64
    window: int = 5
    channels: int = 48
    length: Any = "L"
    dilation: int = 1
    pads: tuple[int, int] = (2, 2)
    stride: int = 1
    groups: int = 1


class Lines(Graph):
    """A graph of convolutions of lines, each with a bias, whose weights are made on the way."""

    def made(self, *shape: int) -> SSAValue:
        """Return a new weight of this shape."""
        name = f"w{len(self.weights)}"
        weight = Weight.of(name, RANDOM.standard_normal(shape, np.float32))
        self.weights = Weights([*self.weights.values(), weight], "the test")
        return self.weight(name, shape)

    def convolve(self, line: Line) -> None:
        """Add a convolution with an input and an output."""
        number = len(self.weights)
        x = self.input(f"x{number}", f32, ["B", line.length, line.channels])
        w = self.made(line.outputs, line.window, line.channels // line.groups)
        how: Any = {"strides": (line.stride,), "dilations": (line.dilation,)}
        y = self.add(nn.ConvOp(x, w, pads=line.pads, groups=line.groups, **how))
        bias = self.add(nn.BroadcastOp(self.made(line.outputs), [2], extents(y.type)))
        self.output(f"y{number}", self.add(nn.AddOp(y, bias)))


def graph_of(*lines: Line) -> Lines:
    graph = Lines(Weights((), "the test"))
    for line in lines:
        graph.convolve(line)
    return graph


def kernels(*lines: Line) -> int:
    module: ModuleOp = graph_of(*lines).finish()
    run_passes(manager.context(), module, resolve_target("cpu").passes())
    return sum(isinstance(op, KernelOp) for op in module.ops)


LONG = Dim.symbol("L") * 8
SHARING = {
    "channels": Line(outputs=96, channels=32),
    "images": Line(length=LONG),
    "places": Line(dilation=3, pads=(12, 0)),
    "sizes": Line(window=2, pads=(0, 1)),
    "all": Line(128, 7, 64, LONG, 2, (5, 1)),
}
APART = {
    "strides": Line(stride=2),
    "windows of one": Line(window=1, pads=(0, 0)),
    "channels that steps leave over": Line(channels=50),
    "channels that panels leave over": Line(outputs=60),
    "panels that are odd": Line(outputs=48),
    "groups": Line(groups=2),
}


@pytest.mark.parametrize("other", SHARING.values(), ids=SHARING.keys())
def test_convolutions_share_a_kernel(other: Line) -> None:
    assert kernels(Line(), other) == 1


@pytest.mark.parametrize("other", APART.values(), ids=APART.keys())
def test_convolutions_that_go_unlike_share_none(other: Line) -> None:
    assert kernels(Line(), other) == 2


def test_channels_that_are_groups_share_a_kernel_wherever_elements_are() -> None:
    lines = (Line(24, 3, 24, "L", d, (d, d), groups=24) for d in (1, 3, 9))
    assert kernels(*lines) == 1


def test_channels_that_are_groups_share_none_where_windows_have_other_sizes() -> None:
    lines = (Line(24, n, 24, "L", 1, (n, 0), groups=24) for n in (2, 3))
    assert kernels(*lines) == 2


@cache
def compiled() -> list[Any]:
    lines = [Line(), *SHARING.values(), Line(64, 5, 64, "L", 2, (0, 9))]
    graph = graph_of(*lines, *(Line(24, 3, 24, "L", d, (d, d), groups=24) for d in (1, 3, 9)))
    module, weights = graph.finish(), dict(graph.weights)
    return [lamina.compile(module, target, weights=weights) for target in ("cpu", "reference")]


@pytest.mark.parametrize(("images", "length"), [(0, 31), (1, 1), (1, 3), (3, 31), (1, 1000)])
def test_a_shared_kernel_gives_what_each_convolution_is(images: int, length: int) -> None:
    cpu, reference = compiled()
    assert len(cpu.plan.kernels) == 2
    shapes = [[dim.evaluate({"B": images, "L": length}) for dim in x.dims] for x in cpu.inputs]
    xs = [RANDOM.standard_normal(shape, np.float32) for shape in shapes]
    for y, meant in zip(cpu(*xs).values(), reference(*xs).values(), strict=True):
        np.testing.assert_allclose(y, meant, rtol=1e-4, atol=1e-4)


def test_padded_images_keep_their_channels() -> None:
    graph = Lines(Weights((), "the test"))
    for n in (32, 64):
        x = graph.input(f"x{n}", f32, ["B", "H", "W", n])
        y = nn.ConvOp(x, graph.made(n, 3, 3, n), strides=(2, 2), pads=(1, 1, 1, 1))
        graph.output(f"y{n}", graph.add(y))
    module: ModuleOp = graph.finish()
    run_passes(manager.context(), module, resolve_target("cpu").passes())
    assert sum(isinstance(op, KernelOp) for op in module.ops) == 2
