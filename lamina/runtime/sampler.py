"""The next token, chosen from a row of logits."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from lamina.errors import InputError, LaminaError
from lamina.runtime.sampling_params import SamplingParams

Row = NDArray[np.float32]
Ids = NDArray[np.intp]
Weights = NDArray[np.float64]

_NUCLEUS_GUESSES: Final = (256, 2048, 16384)
"""How many of the likeliest tokens to sort, in turn, until they reach `top_p`."""
_HOTTEST: Final = 1e30
"""Beyond it every finite logit is the same, and -inf / temperature might become NaN."""
_LARGEST: Final = float(np.finfo(np.float32).max)
_BLOCK: Final = 256
"""Tokens whose weights are added up before any running sum is made."""


class Sampler:
    """Chooses the tokens of one request; it owns that request's random numbers and history.

    The filters come in this order: repetition penalty, temperature, top-k, top-p, min-p, and
    the probabilities that top-p adds up are those among the top k. One random number is drawn
    a token, so equal params, choice, prompt and logits give equal tokens, whoever else is being
    served. The penalty is the one of CTRL (arXiv:1909.05858), over the prompt and the output;
    top-p is the nucleus of arXiv:1904.09751; min-p is arXiv:2407.01082.
    """

    def __init__(
        self, params: SamplingParams, n_valid: int, prompt: Iterable[int] = (), choice: int = 0
    ) -> None:
        """Serve a request whose tokens are the ids below `n_valid`; `prompt` has its ids.

        Requests that are alike but for `choice` (0, 1, ...) draw different random numbers from
        one seed. Raises `InputError` if `n_valid` is not positive.
        """
        if n_valid < 1:
            raise InputError(f"n_valid is {n_valid}: expected the number of tokens, at least 1")
        self._params = params
        self._n_valid = n_valid
        self._temperature = min(params.temperature, _HOTTEST)
        self._top_k = min(params.top_k if params.top_k > 0 else n_valid, n_valid)
        self._random = np.random.default_rng(
            np.random.SeedSequence(params.seed, spawn_key=(choice,))
        )
        self._seen: NDArray[np.bool_] | None = None
        if params.repetition_penalty != 1.0:
            self._seen = np.zeros(n_valid, np.bool_)
            self._seen[[token for token in prompt if 0 <= token < n_valid]] = True

    def sample(self, logits: NDArray[Any]) -> int:
        """Return the next token's id, below `n_valid`, and note that it was chosen.

        `logits` is float [vocabulary], which may be padded beyond `n_valid`, and is not changed.
        Raises `InputError` for another shape or dtype, and `LaminaError` for a row with NaN or
        whose largest value is infinite.
        """
        row = self._penalised(self._checked(logits))
        best = int(row.argmax())
        if not math.isfinite(row[best]):
            raise LaminaError(
                f"the logits have {float(row[best])} at token {best}: expected finite numbers, "
                "so the weights or the input of the model are broken"
            )
        token = best if self._params.greedy else self._draw(row, float(row[best]))
        if self._seen is not None:
            self._seen[token] = True
        return token

    def _checked(self, logits: NDArray[Any]) -> Row:
        if logits.ndim != 1 or logits.dtype.kind != "f" or len(logits) < self._n_valid:
            raise InputError(
                f"logits are {logits.dtype} {list(logits.shape)}: "
                f"expected float32 [n], n at least {self._n_valid}"
            )
        return logits[: self._n_valid].astype(np.float32, copy=False)

    def _penalised(self, row: Row) -> Row:
        if self._seen is None:
            return row
        row, ids = row.copy(), np.flatnonzero(self._seen)
        values, penalty = row[ids].astype(np.float64), self._params.repetition_penalty
        with np.errstate(over="ignore"):
            scaled = np.where(values > 0, values / penalty, values * penalty)
        # A penalty near 0 or without bounds makes no logit infinite that was not.
        row[ids] = np.where(np.isfinite(values), scaled.clip(-_LARGEST, _LARGEST), values)
        return row

    def _draw(self, row: Row, largest: float) -> int:
        params, temperature = self._params, self._temperature
        uniform = float(self._random.random())
        if self._top_k < self._n_valid or params.top_p < 1:
            ids, weights = self._likeliest(row, largest)
        elif params.min_p > 0:
            ids = np.flatnonzero(row >= largest + temperature * math.log(params.min_p))
            weights = _weights(row[ids], largest, temperature)
        else:
            return _pick_from_all(_all_weights(row, largest, temperature), uniform)
        return int(ids[_pick(weights, uniform)])

    def _likeliest(self, row: Row, largest: float) -> tuple[Ids, Weights]:
        """Return the ids that the filters leave, the likeliest first, and their weights."""
        if self._top_k < self._n_valid:
            ids, weights = self._ranked(row, largest, self._top_k)
            goal = self._params.top_p * float(weights.cumsum()[-1])
        else:
            every = _all_weights(row, largest, self._temperature)
            goal = self._params.top_p * float(every.sum(dtype=np.float64))
            ids, weights = self._reaching(row, largest, goal)
        in_nucleus = int(np.searchsorted(weights.cumsum(), goal)) + 1
        probable = int(np.count_nonzero(weights >= self._params.min_p))
        return ids, weights[: min(in_nucleus, probable)]

    def _reaching(self, row: Row, largest: float, goal: float) -> tuple[Ids, Weights]:
        """Return the likeliest ids and their weights, enough for a sum of `goal`."""
        for count in _NUCLEUS_GUESSES:
            if count < self._n_valid:
                ids, weights = self._ranked(row, largest, count)
                if weights.sum() >= goal:
                    return ids, weights
        return self._ranked(row, largest, self._n_valid)

    def _ranked(self, row: Row, largest: float, count: int) -> tuple[Ids, Weights]:
        ids = largest_ids(row, count)
        return ids, _weights(row[ids], largest, self._temperature)


def choice_numbers(prompts: Sequence[Sequence[int]]) -> list[int]:
    """Return for each prompt how many equal ones come before it, the `choice` of its sampler.

    So one seed gives a prompt the same text alone and beside others, and repeats of a prompt
    different texts.
    """
    seen: Counter[tuple[int, ...]] = Counter()
    choices: list[int] = []
    for prompt in prompts:
        choices.append(seen[tuple(prompt)])
        seen[tuple(prompt)] += 1
    return choices


def largest_ids(row: Row, count: int) -> Ids:
    """Return the ids of the `count` largest values, falling, lower ids first among equal ones.

    `row` is float32 [n] without NaN, and `count` from 1 to n.
    """
    candidates = np.flatnonzero(row >= _lower_bound(row, count))
    order = np.argsort(-row[candidates], kind="stable")
    return candidates[order[:count]]


def _lower_bound(row: Row, count: int) -> float:
    """Return a number that at least `count` values reach, and few more.

    Each of the `count` largest maxima of disjoint groups is such a value; the groups are strided
    so that their maxima come from whole-vector operations.
    """
    width = len(row) // (4 * count)
    if width < 2:
        return float(np.partition(row, len(row) - count)[len(row) - count])
    groups = len(row) // width
    maxima = row[: groups * width].reshape(width, groups).max(axis=0)
    return float(np.partition(maxima, groups - count)[groups - count])


def _all_weights(row: Row, largest: float, temperature: float) -> Row:
    """Return exp((row - largest) / temperature) in float32, the largest being 1."""
    with np.errstate(over="ignore"):
        return np.exp((row - np.float32(largest)) / np.float32(temperature))


def _weights(values: Row, largest: float, temperature: float) -> Weights:
    """Return exp((values - largest) / temperature) in float64, the largest being 1."""
    return np.exp((values.astype(np.float64) - largest) / temperature)


def _pick_from_all(weights: Row, uniform: float) -> int:
    """Do as `_pick`, but add blocks up first: a running sum of every weight would be slow."""
    starts = np.arange(0, len(weights), _BLOCK)
    sums = np.add.reduceat(weights, starts, dtype=np.float64).cumsum()
    target = uniform * float(sums[-1])
    block = _first_beyond(sums, target)
    before = float(sums[block - 1]) if block else 0.0
    start = int(starts[block])
    inner = weights[start : start + _BLOCK].cumsum(dtype=np.float64)
    return start + _first_beyond(inner, target - before)


def _pick(weights: Weights, uniform: float) -> int:
    """Return the index at which the running sum passes `uniform` (in [0, 1)) of the total."""
    sums = weights.cumsum()
    return _first_beyond(sums, uniform * float(sums[-1]))


def _first_beyond(sums: Weights, target: float) -> int:
    """Return the first index whose sum is above `target`, else the first at the total.

    Rounding may put `target` at the total; then the first index there has a positive weight.
    """
    index = int(np.searchsorted(sums, target, side="right"))
    return index if index < len(sums) else int(np.searchsorted(sums, float(sums[-1])))
