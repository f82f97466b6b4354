"""Instructions that take turns keep what they need before them."""

import re

import numpy as np

from lamina.targets.cpu.alternation import in_turns


def test_chains_take_turns() -> None:
    a = ["  %v1 = load i32, ptr %p", "  %v2 = add i32 %v1, 1"]
    b = ["  %v3 = load i32, ptr %q", "  %v4 = add i32 %v3, 1", "  %v5 = add i32 %v4, 1"]
    assert in_turns([a, b]) == [a[0], b[0], a[1], b[1], b[2]]


def test_nothing_comes_before_what_it_needs() -> None:
    shared = ["  %v1 = load i32, ptr %p", "  %v2 = add i32 %v1, 1", "  %v3 = mul i32 %v2, %v2"]
    user = ["  %v4 = sub i32 %v3, 1", "  store i32 %v4, ptr %q"]
    assert in_turns([shared, user]) == [*shared, *user]
    assert in_turns([[], user]) == user


def test_any_chains_keep_their_lines_and_their_order() -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        made = [f"  %v{n} = add i32 %v{rng.integers(0, n)}, 1" for n in range(1, 30)]
        ends = sorted(rng.integers(0, 29, 3))
        pieces = [made[a:b] for a, b in zip([0, *ends], [*ends, 29], strict=True)]
        result = in_turns(pieces)
        assert sorted(result) == sorted(made)
        known = {"%v0"}
        for line in result:
            name, needed = re.findall(r"%v\d+", line)
            assert needed in known
            known.add(name)
