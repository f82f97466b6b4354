from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from lamina.dialects.dims import Dim
from lamina.errors import InputError
from lamina.runtime.random_batch import random_batch
from lamina.targets.base import Binding, Signature

PLAIN = ("pages", 2, 16, 6)
TILED = ("pages", 2, 4, 6, 4)


def signature(pool: tuple[str | int, ...]) -> Signature:
    """A decoder of 50 tokens that keeps one pool."""
    shapes: Mapping[str, tuple[str | int, ...]] = {
        "tokens": ("T",),
        "positions": ("T",),
        "query_start": ("S + 1",),
        "table": ("S", "B"),
        "work": ("W", 2),
        "rows": ("R",),
    }
    inputs = (Binding(role, "i32", dims(shape), role) for role, shape in shapes.items())
    logits, state = Binding("logits", "f32", dims(("R", 50))), Binding("k.0", "f32", dims(pool))
    return Signature(tuple(inputs), (logits,), (state,), {"block": 4})


def dims(shape: tuple[str | int, ...]) -> tuple[Dim, ...]:
    return tuple(Dim.of(each) for each in shape)


def batch(pool: tuple[str | int, ...] = PLAIN, seed: int = 0, **sizes: int) -> dict[str, Any]:
    return random_batch(signature(pool), sizes, np.random.default_rng(seed))


@pytest.mark.parametrize("seed", range(5))
def test_every_token_is_once_in_the_work(seed: int) -> None:
    made = batch(seed=seed, T=23, S=3)
    starts = made["query_start"]
    entries = [
        token
        for s, b in made["work"]
        for token in range(starts[s] + 4 * b, min(starts[s] + 4 * b + 4, starts[s + 1]))
    ]
    assert sorted(entries) == list(range(23))


@pytest.mark.parametrize("seed", range(5))
def test_every_position_of_a_sequence_has_a_page_of_its_own(seed: int) -> None:
    made = batch(seed=seed, T=23, S=3)
    last = made["positions"][made["query_start"][1:] - 1]
    pages = [p for row, end in zip(made["table"], last, strict=True) for p in row[: end // 16 + 1]]
    assert sorted(pages) == list(range(len(made["k.0"])))


def test_positions_follow_one_another() -> None:
    made = batch(T=23, S=3)
    for start, end in zip(made["query_start"], made["query_start"][1:], strict=False):
        assert set(np.diff(made["positions"][start:end])) <= {1}


def test_rows_are_as_many_as_asked_for() -> None:
    assert len(batch(T=9, R=7)["rows"]) == 7
    assert len(batch(T=9, S=3)["rows"]) == 3


def test_tokens_are_in_the_vocabulary() -> None:
    tokens = batch(T=500)["tokens"]
    assert 0 <= tokens.min() < tokens.max() < 50


def test_the_same_seed_makes_the_same_batch() -> None:
    one, same, other = batch(seed=1), batch(seed=1), batch(seed=2)
    assert all(np.array_equal(one[name], same[name]) for name in one)
    assert not np.array_equal(one["tokens"], other["tokens"])


def test_two_layouts_of_a_pool_get_the_same_batch() -> None:
    plain, tiled = batch(PLAIN), batch(TILED)
    assert plain["k.0"].shape != tiled["k.0"].shape
    assert all(np.array_equal(plain[name], tiled[name]) for name in plain if name != "k.0")


@pytest.mark.parametrize("sizes", [{"T": 0}, {"T": 0, "S": 0}, {"T": 1, "S": 4}])
def test_a_batch_may_have_nothing_to_do(sizes: dict[str, int]) -> None:
    made = batch(**sizes)
    assert len(made["tokens"]) == sizes["T"] == made["query_start"][-1]


@pytest.mark.parametrize(
    ("sizes", "reason"),
    [
        ({"B": 2}, "no free extent B"),
        ({"T": 1, "S": 0}, "at least one sequence"),
        ({"T": 3, "R": 4}, "only 3 tokens"),
        ({"T": 10**12}, "no memory for a batch of T = 1000000000000"),
        ({"S": 10**15}, "no memory for a batch of S"),
        ({"T": 10**17, "S": 1}, "no memory for a batch of T"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(sizes: dict[str, int], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        batch(**sizes)
