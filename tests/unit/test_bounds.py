import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lamina.dialects.bounds import proves_at_most, proves_multiple
from lamina.dialects.dims import Dim, parse_dim

F = "floordiv(T - 2, 2)"
G = f"floordiv({F} - 1, 2)"
H = f"floordiv({G} - 1, 2)"
SEVERAL = [f"{i}*{each} + {i}" for each in (F, G, H, f"floordiv({H} - 1, 2)") for i in (1, 2, 4)]
TRUE = [
    (f"4*{F} + 4", "3 + " + " + ".join(f"max({each}, 0)" for each in SEVERAL)),
    ("0", "T"),
    ("7*T", "64*ceildiv(7*T, 64)"),
    ("64*ceildiv(7*T, 64)", "7*T + 63"),
    ("T", "max(R, T)"),
    ("max(R, T)", "R + T"),
    ("max(max(R, T), S)", "R + S + T"),
    ("min(R, T)", "max(R, T)"),
    ("T - 3", "max(T - 3, 0)"),
    ("8*T - 8", "2*max(4*T - 4, 0)"),
    ("8*floordiv(T, 8)", "T"),
    ("T", "8*floordiv(T, 8) + 7"),
    ("mod(T, 8)", "7"),
    ("T*max(R, 2)", "T*max(R, 2) + 64*ceildiv(R, 64)"),
    ("4*R*T", "64*ceildiv(R*T, 16)"),
    ("4*floordiv(T, 2)", "64*ceildiv(4*floordiv(T, 2), 64)"),
    ("4*max(T, 5)", "64*ceildiv(4*max(T, 5), 64)"),
    ("8*T", " + ".join(["64*ceildiv(8*T, 64)", *(f"max({i}*R - S, 0)" for i in range(1, 40))])),
]
FALSE = [
    ("T", "0"),
    ("64*ceildiv(7*T, 64)", "7*T + 62"),
    ("max(R, T)", "T"),
    ("T", "min(R, T)"),
    ("T", "R*T"),
    ("T", "floordiv(T, R)"),
]


@pytest.mark.parametrize(("a", "b"), TRUE)
def test_what_holds_for_all_values_is_proved(a: str, b: str) -> None:
    assert proves_at_most(parse_dim(a), parse_dim(b))


@pytest.mark.parametrize(("a", "b"), FALSE)
def test_what_fails_for_some_values_is_not(a: str, b: str) -> None:
    assert not proves_at_most(parse_dim(a), parse_dim(b))


def make(draw: random.Random, depth: int) -> Dim:
    if depth == 0:
        return draw.choice([Dim.symbol("T"), Dim.symbol("R"), Dim.of(draw.randint(-9, 9))])
    a, b = make(draw, depth - 1), make(draw, draw.randint(0, depth - 1))
    divisor = draw.choice([2, 3, 16])
    made = [a + b, a - b, a * b, a.maximum(b), a.minimum(b)]
    return draw.choice([*made, a // divisor, a.ceildiv(divisor), a % divisor])


@settings(max_examples=300, deadline=None)
@given(st.randoms(use_true_random=False))
def test_nothing_false_is_proved(draw: random.Random) -> None:
    a, b = make(draw, draw.randint(0, 2)), make(draw, draw.randint(0, 3))
    if proves_at_most(a, b):
        for _ in range(40):
            values = {name: draw.choice([0, 1, 2, 3, 7, 15, 16, 17, 100]) for name in "TR"}
            assert a.evaluate(values) <= b.evaluate(values)


def test_multiples_are_seen_through_max() -> None:
    assert proves_multiple(parse_dim("64*ceildiv(T, 3) + max(64*T, 128*R)"), 64)
    assert not proves_multiple(parse_dim("max(64*T, 32)"), 64)
