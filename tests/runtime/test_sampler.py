from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.errors import InputError, LaminaError
from lamina.runtime.sampler import Sampler, choice_numbers, largest_ids
from lamina.runtime.sampling_params import SamplingParams

N = 3000


def logits(seed: int = 0, n: int = N) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 2, n).astype(np.float32)


def tokens(row: np.ndarray, count: int = 40, *, n_valid: int = N, choice: int = 0, **fields):
    sampler = Sampler(SamplingParams(**fields), n_valid, choice=choice)
    return [sampler.sample(row) for _ in range(count)]


def slow_token(row: np.ndarray, params: SamplingParams) -> int:
    """The filters one after another on sorted probabilities, in float64."""
    order = np.argsort(-row, kind="stable")
    kept = order[: params.top_k if params.top_k > 0 else len(row)]
    p = np.exp((row[kept].astype(np.float64) - row.max()) / params.temperature)
    p /= p.sum()
    nucleus = np.cumsum(p) - p < params.top_p
    nucleus[0] = True
    kept, p = kept[nucleus & (p >= params.min_p * p[0])], p[nucleus & (p >= params.min_p * p[0])]
    if params.top_k <= 0 and params.top_p == 1:
        kept, p = np.sort(kept), p[np.argsort(kept)]
    uniform = np.random.default_rng(np.random.SeedSequence(params.seed, spawn_key=(0,))).random()
    return int(kept[np.searchsorted(np.cumsum(p), uniform * p.sum(), side="right")])


def test_greedy_takes_the_lowest_id_among_equals() -> None:
    assert tokens(np.float32([0, 7, 3, 7, 7]), 2, n_valid=5) == [1, 1]


def test_greedy_equals_argmax() -> None:
    assert [tokens(logits(n), 1) for n in range(9)] == [[logits(n).argmax()] for n in range(9)]


@pytest.mark.parametrize("temperature", [1e-5, 1.0, 5.0, 1e9, 1e300])
def test_padded_ids_are_never_sampled(temperature: float) -> None:
    row = np.full(64, 50, np.float32)
    row[:40] = 0
    assert max(tokens(row, 300, n_valid=40, temperature=temperature)) < 40


@pytest.mark.parametrize("fields", [{}, {"top_k": 5}, {"top_p": 0.5}, {"min_p": 0.1}])
def test_a_token_of_no_probability_is_never_sampled(fields: dict) -> None:
    row = np.full(64, -np.inf, np.float32)
    row[[7, 9]] = 1e30, 1e30
    assert set(tokens(row, 100, n_valid=64, temperature=1e300, seed=1, **fields)) <= {7, 9}


@pytest.mark.parametrize("fields", [{"top_k": 1}, {"top_p": 0}, {"min_p": 1.0}])
def test_the_tightest_filters_keep_the_likeliest_token(fields: dict) -> None:
    assert set(tokens(logits(), temperature=2.0, **fields)) == {logits().argmax()}


def test_top_k_beyond_the_vocabulary_is_off() -> None:
    off, clamped = (tokens(logits(), temperature=1.0, seed=3, top_k=k) for k in (0, 10**6))
    assert off == clamped


@given(
    st.integers(0, 99),
    st.sampled_from([0.3, 1.0, 5.0]),
    st.sampled_from([0, 1, 40, 1000]),
    st.sampled_from([0.0, 0.3, 0.9, 1.0]),
    st.sampled_from([0.0, 0.02, 1.0]),
)
def test_filters_agree_with_their_definitions(
    seed: int, temperature: float, top_k: int, top_p: float, min_p: float
) -> None:
    params = SamplingParams(
        temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, seed=seed
    )
    assert Sampler(params, N).sample(logits(seed)) == slow_token(logits(seed), params)


@given(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), min_size=1, max_size=90), st.data())
def test_largest_ids_are_in_falling_order_with_low_ids_first(values: list[float], data) -> None:
    row, count = np.float32(values), data.draw(st.integers(1, len(values)))
    assert largest_ids(row, count).tolist() == np.argsort(-row, kind="stable")[:count].tolist()


def test_tokens_come_as_often_as_their_probability() -> None:
    row = np.log(np.float32([0.5, 0.3, 0.2]))
    drawn = tokens(row, 4000, n_valid=3, temperature=1.0, seed=0)
    assert np.bincount(drawn) / 4000 == pytest.approx([0.5, 0.3, 0.2], abs=0.03)


def test_one_seed_gives_one_text() -> None:
    first, again = (tokens(logits(), temperature=1.0, seed=7) for _ in range(2))
    assert first == again


def test_no_seed_gives_another_text_each_time() -> None:
    assert tokens(logits(), temperature=1.0) != tokens(logits(), temperature=1.0)


def test_choices_of_one_seed_differ() -> None:
    texts = [tokens(logits(), temperature=1.0, seed=7, choice=n) for n in range(4)]
    assert all(one != other for one, other in pairwise(texts))


def test_two_samplers_do_not_disturb_each_other() -> None:
    a, b = (Sampler(SamplingParams(temperature=1.0, seed=n), N) for n in (7, 8))
    mixed = [(a.sample(logits()), b.sample(logits(1)))[0] for _ in range(40)]
    assert mixed == tokens(logits(), temperature=1.0, seed=7)


def test_only_repeated_prompts_get_another_choice() -> None:
    assert choice_numbers([[1, 2], [3], [1, 2], [], [1, 2]]) == [0, 0, 1, 0, 2]


def test_the_repetition_penalty_covers_the_prompt_and_the_output() -> None:
    params = SamplingParams(repetition_penalty=2.0)
    sampler = Sampler(params, 4, prompt=[0, 99])
    row = np.float32([8, 6, 5, -9])
    assert [sampler.sample(row) for _ in range(4)] == [1, 2, 0, 0]
    assert row.tolist() == [8, 6, 5, -9]


def test_the_repetition_penalty_lowers_negative_logits() -> None:
    params = SamplingParams(repetition_penalty=2.0)
    assert Sampler(params, 2, prompt=[0]).sample(np.float32([-1, -1.5])) == 1


@pytest.mark.parametrize(("penalty", "chosen"), [(5e-324, 0), (1e-30, 0), (1e300, 2)])
def test_no_repetition_penalty_makes_a_logit_infinite(penalty: float, chosen: int) -> None:
    params = SamplingParams(repetition_penalty=penalty, temperature=0.1)
    row = np.float32([15, -14, 3, -np.inf])
    sampler = Sampler(params, 4, prompt=[0, 3] if chosen == 0 else [0, 1, 3])
    assert sampler.sample(row) == chosen


@pytest.mark.parametrize("fields", [{}, {"top_k": 3}, {"top_p": 0.5}, {"min_p": 0.1}])
@pytest.mark.parametrize("temperature", [1e-8, 1e-5, 1.0])
def test_the_largest_of_logits_far_apart_is_taken(temperature: float, fields: dict) -> None:
    row = np.full(N, -3.4e38, np.float32)
    row[[7, 9]] = 3.4e38, 3.3e38
    assert set(tokens(row, 5, temperature=temperature, **fields)) == {7}


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_not_finite_are_an_error(bad: float, temperature: float) -> None:
    row = logits()
    row[5] = bad
    with pytest.raises(LaminaError, match="at token 5: expected finite numbers"):
        tokens(row, 1, temperature=temperature)


def test_a_row_of_minus_infinity_is_an_error() -> None:
    with pytest.raises(LaminaError, match="-inf at token 0"):
        tokens(np.full(N, -np.inf, np.float32), 1, temperature=1.0)


@pytest.mark.parametrize("row", [np.zeros((1, N)), np.zeros(N - 1), np.zeros(N, np.int32)])
def test_logits_of_another_shape_or_dtype_are_refused(row: np.ndarray) -> None:
    with pytest.raises(InputError, match=r"logits are .*: expected float32 \[n\]"):
        tokens(row, 1)


def test_a_vocabulary_without_tokens_is_refused() -> None:
    with pytest.raises(InputError, match="n_valid is 0"):
        Sampler(SamplingParams(), 0)
