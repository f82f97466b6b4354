"""Activations that a source spells in parts: what they are recognised as computes the same."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import FloatAttr, f32
from xdsl.ir import SSAValue

import lamina
from lamina.dialects import nn
from lamina.frontend.graph import Graph
from lamina.frontend.model import Weights
from lamina.targets.cpu.target import CpuTarget

Form = Callable[["Parts", SSAValue], SSAValue]


class Parts(Graph):
    """A graph of numbers and arithmetic."""

    def number(self, value: float, like: SSAValue) -> SSAValue:
        return self.add(nn.ConstantOp(FloatAttr(value, f32), like.type))

    def times(self, a: SSAValue, b: SSAValue | float) -> SSAValue:
        return self.add(nn.MulOp(a, self.number(b, a) if isinstance(b, float) else b))

    def plus(self, a: SSAValue, b: SSAValue | float) -> SSAValue:
        return self.add(nn.AddOp(a, self.number(b, a) if isinstance(b, float) else b))


def silu(graph: Parts, x: SSAValue) -> SSAValue:
    return graph.times(graph.times(graph.add(nn.SigmoidOp(x)), 2.0), x)


def gelu(graph: Parts, x: SSAValue) -> SSAValue:
    gate = graph.plus(graph.add(nn.ErfOp(graph.times(x, 0.5**0.5))), 1.0)
    return graph.times(graph.times(x, 0.5), gate)


def tanh_gelu(graph: Parts, x: SSAValue) -> SSAValue:
    cube = graph.add(nn.PowOp(x, graph.number(3.0, x)))
    inner = graph.times(graph.plus(x, graph.times(cube, 0.044715)), (2 / np.pi) ** 0.5)
    return graph.times(graph.times(graph.plus(graph.add(nn.TanhOp(inner)), 1.0), x), 0.5)


def compiled(form: Form, left_out: str = "") -> Any:
    graph = Parts(Weights((), "the test"))
    x = graph.input("x", f32, ["N", 7])
    graph.output("y", form(graph, x))
    passes = tuple(each for each in CpuTarget().passes() if each.name != left_out)
    return lamina.compile(graph.finish(), CpuTarget(), pipeline=passes, weights={})


@pytest.mark.parametrize("rows", [0, 1, 3, 31])
@pytest.mark.parametrize("form", [silu, gelu, tanh_gelu])
def test_it_computes_what_its_parts_do(form: Form, rows: int) -> None:
    x = np.random.default_rng(rows).normal(0, 3, (rows, 7)).astype(np.float32)
    whole, parts = compiled(form), compiled(form, "fuse-activations")
    np.testing.assert_allclose(whole(x=x)["y"], parts(x=x)["y"], rtol=2e-6, atol=2e-6)
