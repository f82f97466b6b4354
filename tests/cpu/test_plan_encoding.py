import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from lamina.dialects.areas import Area
from lamina.dialects.dims import Dim
from lamina.dialects.text import parse_module
from lamina.errors import FormatError, LoweringError
from lamina.plugins import manager
from lamina.targets.cpu.step import Step, Tables
from lamina.targets.plans.expressions import Expressions
from lamina.targets.plans.hazards import Hazards, Place
from lamina.targets.plans.plan_encoding import encode_plan
from lamina.targets.plans.plan_tables import BARRIER, END, JUMP, LAUNCH, SWITCH, Plan

EMPTY = Plan(0, (), (), (), ((END,),), (), (), (), (), 0, (), (), 0, 0, 0, (), (), (), 0, ())
PLANS = Path(__file__).parent / "plans"
T = Dim.symbol("T")


def steps(change: Callable[[str], str] = lambda text: text) -> Plan:
    text = change((PLANS / "steps.mlir").read_text())
    return encode_plan(parse_module(manager.context(), text, "steps"), 0, [])


def test_only_launches_that_meet_in_memory_have_a_barrier_between_them() -> None:
    opcodes = [record[0] for record in steps().records]
    one, two = [BARRIER, LAUNCH, JUMP], [BARRIER, LAUNCH, BARRIER, LAUNCH]
    assert opcodes == [LAUNCH, LAUNCH, SWITCH, *one, SWITCH, *one, *two, END]


def test_places_meet_where_they_cannot_be_told_apart() -> None:
    zero, row = Dim.of(0), Dim.of(64)
    a, b = Place(1, Area.stretch(zero, T * 64)), Place(1, Area.stretch(T * 64, T * 4))
    c = Place(1, Area.stretch(T * 32, T))
    assert not a.overlaps(b)
    assert a.overlaps(c)
    assert not a.overlaps(Place(2, a.area))
    left, right = (Place(1, Area.columns(Dim.of(n), Dim.of(32), T, row)) for n in (0, 32))
    assert not left.overlaps(right)
    assert left.overlaps(Place(1, Area.columns(Dim.of(28), Dim.of(32), T, row)))
    assert not Hazards(reads=frozenset({a})).conflict(Hazards(reads=frozenset({c})))
    assert Hazards(reads=frozenset({a})).conflict(Hazards(writes=frozenset({c})))


def test_a_plan_is_the_same_after_bytes_and_back() -> None:
    assert Plan.from_bytes(steps().to_bytes()) == steps()


@pytest.mark.parametrize(
    ("field", "row", "column", "number"),
    [
        ("records", 0, 1, 7),
        ("records", 0, 0, 9),
        ("records", 2, 3, 1),
        ("records", -1, 0, 2),
        ("calls", 0, 0, 3),
        ("calls", 0, 1, 10_000),
        ("calls", 0, 3, -1),
        ("works", 0, 0, 99),
        ("works", 0, 2, -2),
        ("arguments", 0, 0, 7),
        ("arguments", 0, 1, 99),
        ("expressions", 0, 1, 1 << 40),
        ("outputs", 0, 0, 99),
    ],
)
def test_a_plan_that_leads_outside_its_tables_is_refused(
    field: str, row: int, column: int, number: int
) -> None:
    fields = json.loads(steps().to_bytes())
    fields[field][row][column] = number
    with pytest.raises(FormatError, match=f"the plan: field {field}: "):
        Plan.from_bytes(json.dumps(fields).encode())


@pytest.mark.parametrize("field", ["works", "schedules"])
def test_a_plan_that_says_too_little_of_its_kernels_is_refused(field: str) -> None:
    fields = json.loads(steps().to_bytes())
    fields[field].pop()
    with pytest.raises(FormatError, match=f"the plan: field {field}: expected"):
        Plan.from_bytes(json.dumps(fields).encode())


@pytest.mark.parametrize("row", [[0] * 9, [0, "x"], "text"])
def test_a_plan_with_a_row_of_another_kind_is_refused(row: object) -> None:
    fields = json.loads(steps().to_bytes())
    fields["calls"][0] = row
    with pytest.raises(FormatError, match="the plan cannot be read"):
        Plan.from_bytes(json.dumps(fields).encode())


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"version":1}', b'{"version":3}', b"\xff"])
def test_what_is_no_plan_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError, match="the plan"):
        Plan.from_bytes(data)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('symbols = ["T"]', 'symbols = ["S"]', "no input gives the symbol 'S'"),
        ('symbols = ["T"]}', "symbols = []}", "the call of @double does not fit the kernel"),
        ("@double(", "@triple(", "the plan calls @triple, which is no kernel"),
        ('lamina.input = "x"', 'lamina.weight = "x"', "argument 0 is no buffer of one role"),
        ('lamina.output = "y"', 'lamina.input = "y"', "expected arguments in the order input"),
        ("@forward", "@backward", "the module has no function @forward"),
        ("%arena = plan.arena :", "%arena = plan.alloc :", "there is no rule for plan.alloc"),
    ],
)
def test_a_plan_that_cannot_be_encoded_is_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(LoweringError, match=message):
        steps(lambda text: text.replace(old, new))


def test_memory_of_another_shape_is_refused() -> None:
    with pytest.raises(LoweringError, match=r"@add takes memref<.xf32>, the plan gives"):
        steps(
            lambda text: text.replace("!packed = !plan.buffer<tensor<1000xf32>>", "!packed = !rows")
        )


dims = some.recursive(
    some.sampled_from([T, Dim.symbol("S"), Dim.of(3), Dim.of(-2), Dim.of(0)]),
    lambda inner: (
        some.tuples(
            some.sampled_from(["__add__", "__mul__", "__sub__", "minimum", "maximum"]), inner, inner
        ).map(lambda c: getattr(c[1], c[0])(c[2]))
        | some.tuples(
            some.sampled_from(["__floordiv__", "__mod__", "ceildiv"]),
            inner,
            some.integers(-5, 70).filter(bool),
        ).map(lambda c: getattr(c[1], c[0])(c[2]))
    ),
    max_leaves=8,
)


def evaluated(wanted: list[Dim], symbols: dict[str, int]) -> tuple[int, ...]:
    expressions = Expressions()
    values = [expressions.value(dim) for dim in [*wanted, Dim.of(0)]]
    plan = replace(
        EMPTY,
        values=expressions.count,
        symbols=tuple(expressions.symbols.items()),
        constants=tuple(expressions.constants.items()),
        expressions=tuple(expressions.rows),
        arena=values[-1],
    )
    step = Step(Tables(plan, []), 1)
    step.bind([(value, symbols[name]) for name, value in plan.symbols])
    return step.extents(values[:-1])


@settings(deadline=None)
@given(some.lists(dims, min_size=1, max_size=4), some.integers(0, 99), some.integers(0, 99))
def test_native_extents_equal_those_of_python(wanted: list[Dim], t: int, s: int) -> None:
    symbols = {"T": t, "S": s}
    assert evaluated(wanted, symbols) == tuple(dim.evaluate(symbols) for dim in wanted)


@pytest.mark.parametrize("t", [0, 7])
def test_a_division_by_an_extent_of_0_gives_0(t: int) -> None:
    divisor = Dim.symbol("S")
    divisions = [T // divisor, T.ceildiv(divisor), T % divisor]
    assert evaluated(divisions, {"T": t, "S": 0}) == (0, 0, 0)
