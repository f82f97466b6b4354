"""Random plans: what the planner makes is accepted, and what is accepted computes the same."""

import random
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from plan_builder import Call, Plan, copied, move, planned, simulate, verify
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Region, SSAValue

from lamina.dialects.dims import Dim
from lamina.dialects.plan import AllocOp, ArenaOp, CallOp, HostOp, SwitchOp, ViewOp, is_host
from lamina.dialects.tile import KernelOp
from lamina.errors import LoweringError
from lamina.passes.plan_memory import arena_report

SIZES = [
    "T",
    "4*T",
    "R",
    "3",
    "64",
    "T + R",
    "T*R",
    "max(T, 5)",
    "floordiv(T, 2)",
    "16*ceildiv(T, 16)",
    "T - 1",
]

BESIDE = [("0", 3), ("12", 24), ("108", 5)]
"""Columns of a matrix of 32 that lie side by side: the bytes before them, and how many."""


class Maker:
    """Draws a random plan that reads only what it wrote."""

    def __init__(self, draw: random.Random) -> None:
        self.draw, self.plan = draw, Plan()
        self.sizes = draw.sample(SIZES, 4)
        self.plan.arg("input", "T"), self.plan.arg("input", "32*T")

    def value(self, known: list[SSAValue]) -> SSAValue:
        value = self.draw.choice(known)
        size = str(value.type.bytes)
        if size == "128*T" and self.draw.random() < 0.5:
            if self.draw.random() < 0.5:
                return self.plan.columns(value, *self.draw.choice(BESIDE))
            return self.plan.view(value, "16*T", self.draw.choice(["0", "64*T"]))
        return self.plan.view(value, str(Dim.of(size) // 4)) if self.draw.random() < 0.3 else value

    def call(self, known: list[SSAValue], fresh: list[SSAValue]) -> Call:
        reads = [self.value(known) for _ in range(self.draw.randint(0, 3))]
        access = ["read"] * len(reads) + ["write"] * len(fresh)
        couples = [(i, len(reads) + j) for i in range(len(reads)) for j in range(len(fresh))]
        return [*reads, *fresh], access, self.draw.sample(couples, min(len(couples), 2))

    def launch(self, known: list[SSAValue], *results: SSAValue) -> None:
        fresh = [
            self.plan.alloc(self.draw.choice(self.sizes)) for _ in range(self.draw.randint(0, 2))
        ]
        calls = [self.call(known, [each]) for each in (*results, *fresh)]
        if calls:
            self.plan.launch(*calls)
        known += fresh

    def halves(self, known: list[SSAValue]) -> None:
        whole = self.plan.alloc("32*T")
        for offset in self.draw.sample(["0", "64*T"], 2):
            half = self.plan.view(whole, "16*T", offset)
            self.plan.launch(self.call(known, [half]))
        known.append(whole)

    def columns(self, known: list[SSAValue]) -> None:
        whole = self.plan.alloc("32*T")
        parts = [self.plan.columns(whole, *each) for each in self.draw.sample(BESIDE, 3)]
        cut = self.draw.randint(0, 3)
        for some in (parts[:cut], parts[cut:]):
            if some:
                self.plan.launch(*(self.call(known, [part]) for part in some))
        known.append(whole)

    def update(self, known: list[SSAValue]) -> None:
        ours = [value for value in known if isinstance(value.owner, AllocOp)]
        if ours:
            self.plan.launch(([self.draw.choice(ours)], ["update"], []))

    def host(self, known: list[SSAValue]) -> None:
        fresh = self.plan.alloc(self.draw.choice(self.sizes))
        self.plan.add(HostOp("h", [self.draw.choice(known), fresh], ["read", "write"]))
        known.append(fresh)
        ours = [value for value in known if isinstance(value.owner, AllocOp)]
        if self.draw.random() < 0.3:
            self.plan.add(HostOp("h", [self.draw.choice(ours)], ["update"]))

    def switch(self, known: list[SSAValue]) -> None:
        result, branches = self.plan.alloc(self.draw.choice(self.sizes)), list[Region]()
        bounds = self.draw.choice([[1], [2, 9]])
        for _ in range(len(bounds) + 1):
            with self.plan.branch() as block:
                inner = list(known)
                self.steps(inner, 3)
                self.launch(inner, result)
            branches.append(Region(block))
        self.plan.add(SwitchOp(Dim.of(self.draw.choice(["T", "T + R"])), bounds, branches))
        known.append(result)

    def steps(self, known: list[SSAValue], most: int) -> None:
        actions: list[Callable[[list[SSAValue]], None]] = [
            self.launch,
            self.launch,
            self.halves,
            self.columns,
            self.update,
            self.host,
        ]
        actions += [self.switch] if len(self.plan.blocks) < 3 else []
        for _ in range(self.draw.randint(1, most)):
            self.draw.choice(actions)(known)

    def module(self) -> ModuleOp:
        known = list(self.plan.blocks[0].args)
        self.steps(known, 8)
        outputs = [self.plan.arg("output", size) for size in ("T", "R")]
        for output in outputs:
            self.plan.launch(([*known, output], ["read"] * len(known) + ["write"], []))
        return self.plan.module()


def is_written(module: ModuleOp, view: ViewOp) -> bool:
    """Whether a call writes a view itself; one that is just read may as well be another."""
    access = {op.sym_name.data: op.access for op in module.ops if isinstance(op, KernelOp)}
    return any(
        access[use.operation.callee.string_value()].data[use.index].data == "write"
        for use in view.y.uses
        if isinstance(use.operation, CallOp)
    )


SYMBOLS = st.fixed_dictionaries({"T": st.integers(1, 40), "R": st.integers(0, 40)})


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False), SYMBOLS)
def test_any_plan_is_accepted_and_computes_the_same(
    draw: random.Random, symbols: dict[str, int]
) -> None:
    module = Maker(draw).module()
    result = planned(module)
    verify(module)
    verify(result)
    assert simulate(result, symbols) == simulate(module, symbols)
    report = arena_report(result, symbols)
    assert report["largest_live"] <= report["sum"]


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False), SYMBOLS)
def test_any_plan_computes_the_same_with_copies(
    draw: random.Random, symbols: dict[str, int]
) -> None:
    module = Maker(draw).module()
    apart = copied(module)
    verify(apart)
    assert all(
        map(is_host, (x for op in apart.walk() if isinstance(op, HostOp) for x in op.buffers))
    )
    result = planned(apart)
    verify(result)
    assert simulate(result, symbols) == simulate(module, symbols)


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False), SYMBOLS)
def test_what_the_checker_accepts_computes_the_same(
    draw: random.Random, symbols: dict[str, int]
) -> None:
    module = Maker(draw).module()
    result = planned(module)
    views = [op for op in result.walk() if isinstance(op, ViewOp)]
    found = [op for op in views if isinstance(op.x.owner, ArenaOp)]
    beside = [op for op in views if op.columns is not None and is_written(result, op)]
    if beside and draw.random() < 0.5:
        move(draw.choice(beside), draw.choice(["0", "4", "12", "108"]))
    elif found:
        move(draw.choice(found), draw.choice(found).offset.data)
    try:
        verify(result)
    except LoweringError:
        return
    assert simulate(result, symbols) == simulate(module, symbols)
