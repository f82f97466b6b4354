"""Random graphs: whatever the passes fuse, the plan computes what the graph means."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from group_module import Body, arrays_of_types
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, Region, SSAValue

from lamina.compiler import lower
from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.targets.cpu.target import CpuTarget
from lamina.targets.reference.executable import ReferenceExecutable

T = Dim.symbol("T")
PASSES = [each for each in CpuTarget(kv="f32").passes() if each.name != "decompose-math"]
OPTIONAL = [each.name for each in PASSES if each.name.startswith(("fuse-", "choose-variants"))]


@dataclass
class Graph:
    """Draws a graph on tensors [T, width], of which later operations see the latest few."""

    draw: random.Random
    width: int
    body: Body = field(default_factory=Body)
    roles: list[str] = field(default_factory=list)
    known: list[SSAValue] = field(default_factory=list)
    outputs: list[SSAValue] = field(default_factory=list)
    types: list[Attribute] = field(default_factory=list)

    def arg(self, shape: str, role: str = "weight") -> SSAValue:
        self.roles.append(role)
        return self.body.arg(f"f32[{shape}]")

    def add(self, op: Operation) -> SSAValue:
        return self.body.add(op)

    def some(self) -> SSAValue:
        return self.draw.choice(self.known[-4:])

    def vector(self) -> SSAValue:
        return self.arg(f"{self.width}")

    def heads(self, x: SSAValue, size: int) -> SSAValue:
        return self.add(nn.ReshapeOp(x, [T, self.width // size, size]))

    def flat(self, x: SSAValue) -> SSAValue:
        return self.add(nn.ReshapeOp(x, [T, self.width]))

    def spread(self, x: SSAValue, dim: int) -> SSAValue:
        return self.add(nn.BroadcastOp(x, [dim], [T, self.width]))

    def two(self) -> SSAValue:
        return self.add(self.draw.choice([nn.AddOp, nn.MulOp, nn.MaxOp])(self.some(), self.some()))

    def one(self) -> SSAValue:
        return self.add(self.draw.choice([nn.TanhOp, nn.SiluOp, nn.GeluOp])(self.some()))

    def dot(self, x: SSAValue | None = None) -> SSAValue:
        w = self.arg(f"{self.width}, {self.width}")
        return self.add(nn.DotGeneralOp(x or self.some(), w, [(1, self.draw.choice([0, 1]))]))

    def gate(self) -> SSAValue:
        x = self.some()
        gate, up = self.dot(x), self.dot(x)
        self.outputs += [gate] if self.draw.random() < 0.2 else []
        return self.add(nn.MulOp(self.add(nn.SiluOp(gate)), up))

    def bias(self) -> SSAValue:
        return self.add(nn.AddOp(self.some(), self.spread(self.vector(), 1)))

    def norm(self) -> SSAValue:
        if self.draw.random() < 0.5:
            return self.add(nn.RmsNormOp(self.some(), self.vector(), 1e-5))
        return self.add(nn.LayerNormOp(self.some(), self.vector(), self.vector(), 1e-5))

    def softmax(self) -> SSAValue:
        return self.add(nn.SoftmaxOp(self.some(), 1))

    def rotation(self) -> SSAValue:
        size = self.draw.choice([16, 32, self.width])
        if self.width % size or self.width % 2:
            return self.one()
        cos, sin = (self.arg(f"T, {size // 2}", "input") for _ in range(2))
        pairs = self.draw.random() < 0.5
        x = self.heads(self.some(), size)
        return self.flat(self.add(nn.RopeOp(x, cos, sin, interleaved=pairs)))

    def by_head(self) -> SSAValue:
        size = self.draw.choice([n for n in (3, 8, 16, 32, 48) if self.width % n == 0])
        x = self.add(nn.TanhOp(self.heads(self.some(), size)))
        self.outputs += [x] if self.draw.random() < 0.3 else []
        return self.flat(x)

    def by_row(self) -> SSAValue:
        x = self.some()
        total = self.add(nn.ReduceOp(x, self.draw.choice(["add", "max"]), [1]))
        self.outputs += [total] if self.draw.random() < 0.3 else []
        return self.add(nn.SubOp(x, self.spread(self.add(nn.TanhOp(total)), 0)))

    def part(self) -> SSAValue:
        kept = self.draw.choice([1, 16, 20])
        first = self.draw.choice([0, self.width - kept])
        x = self.some()
        self.outputs.append(self.add(nn.NegOp(self.add(nn.SliceOp(x, [0, first], [T, kept])))))
        return x

    def grow(self, count: int) -> None:
        """Draw `count` operations, or small patterns of them."""
        kinds = (
            *(self.two, self.two, self.one, self.dot, self.dot, self.gate, self.bias),
            *(self.norm, self.softmax, self.rotation, self.by_head, self.by_row, self.part),
        )
        self.known += [self.arg(f"T, {self.width}", "input") for _ in range(2)]
        for _ in range(count):
            self.known.append(self.draw.choice(kinds)())

    def module(self) -> ModuleOp:
        """The graph as a module: some of its values are its outputs."""
        outs = [*self.outputs, self.known[-1], *self.draw.sample(self.known, 2)]
        self.types = types = [arg.type for arg in self.body.block.args]
        self.body.block.add_op(ReturnOp(*outs))
        function = FuncOp(
            "forward",
            (types, [out.type for out in outs]),
            Region(self.body.block),
            arg_attrs=_named([(f"lamina.{role}", f"x{i}") for i, role in enumerate(self.roles)]),
            res_attrs=_named([("lamina.output", f"y{i}") for i in range(len(outs))]),
        )
        return ModuleOp([function])

    def arrays(self, role: str, **sizes: int) -> dict[str, np.ndarray]:
        """Random arrays for the arguments of a role, scaled so that products keep their size."""
        numbers = [i for i, each in enumerate(self.roles) if each == role]
        types = [self.types[i] for i in numbers]
        found = zip(numbers, arrays_of_types(types, **sizes), strict=True)
        scale = self.width**-0.5 if role == "weight" else 1
        return {f"x{i}": scale * array for i, array in found}


def _named(pairs: Sequence[tuple[str, str]]) -> ArrayAttr:
    return ArrayAttr([DictionaryAttr({key: StringAttr(name)}) for key, name in pairs])


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.randoms(use_true_random=False), st.sampled_from([32, 33, 48, 96]), st.integers(2, 9))
def test_a_plan_computes_what_the_graph_means(draw: random.Random, width: int, count: int) -> None:
    graph = Graph(draw, width)
    graph.grow(count)
    module = graph.module()
    left_out = {name for name in OPTIONAL if draw.random() < 0.2}
    plan = lower(module, pipeline=[each for each in PASSES if each.name not in left_out])
    weights = graph.arrays("weight")
    meaning, run = (ReferenceExecutable(each, weights) for each in (module, plan))
    for rows in (1, 5):
        inputs = graph.arrays("input", T=rows)
        expected = meaning(**inputs)
        for name, found in run(**inputs).items():
            largest = max(1.0, float(np.abs(expected[name]).max(initial=0)))
            np.testing.assert_allclose(found, expected[name], rtol=0, atol=1e-4 * largest)
