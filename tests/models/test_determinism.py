"""A prompt has the same logits, bit for bit, however it is served and on how many threads."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np
import pytest
from checkpoints import VOCAB, Checkpoint
from decoding import Step, run_steps

import lamina
from lamina import compiler
from lamina.frontend.model import Model
from lamina.targets.base import Executable
from lamina.targets.cpu.features import levels

Tiny = Callable[[str], tuple[Checkpoint, Model]]
Compile = Callable[[str, str, int], Executable]

RNG = np.random.default_rng(11)
LENGTHS = {"a": 67, "b": 1, "c": 19}
PROMPTS = {name: RNG.integers(0, VOCAB, length).tolist() for name, length in LENGTHS.items()}
MODELS = {"llama": 1e-4, "gguf-q4_1": 0.02}
"""The tiny models, and how far rounding may take logits from what the plan means."""

LEVELS = [level for level in levels() if level != "avx512"]


def chunks(name: str, size: int) -> list[Step]:
    tokens = PROMPTS[name]
    return [{name: tokens[at : at + size]} for at in range(0, len(tokens), size)]


def together(names: str, size: int) -> list[Step]:
    """All prompts in chunks of a size, in this order in each step."""
    steps = range(0, max(LENGTHS.values()), size)
    parts = [{name: PROMPTS[name][at : at + size] for name in names} for at in steps]
    return [{name: tokens for name, tokens in part.items() if tokens} for part in parts]


def at_random(seed: int) -> list[Step]:
    """Steps of up to 9 tokens of some prompts, until all have run."""
    rng, left, steps = np.random.default_rng(seed), dict(PROMPTS), []
    while any(left.values()):
        step = {}
        for name in rng.permutation(list(left)):
            count = rng.integers(0, 10)
            if left[name][:count]:
                step[name], left[name] = left[name][:count], left[name][count:]
        steps += [step] if step else []
    return steps


SERVINGS = {
    "a token at a time": chunks("a", 1),
    "7 at a time": chunks("a", 7),
    "64 at a time": chunks("a", 64),
    "in a batch": together("abc", 100),
    "in another order": together("cba", 100),
    "beside others, a token at a time": together("bca", 1),
    "beside others, 7 at a time": together("abc", 7),
    "at random": at_random(0),
}


def joined(steps: Sequence[Step], results: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """The logits of every sequence, one row a token."""
    found: dict[str, list[np.ndarray]] = {}
    for step, logits in zip(steps, results, strict=True):
        ends = np.cumsum([len(tokens) for tokens in step.values()])
        for name, rows in zip(step, np.split(logits, ends[:-1]), strict=True):
            found.setdefault(name, []).append(rows)
    return {name: np.concatenate(rows) for name, rows in found.items()}


def serve(executable: Executable, steps: Sequence[Step], seed: int) -> dict[str, np.ndarray]:
    return joined(steps, run_steps(executable, steps, page_seed=seed))


@pytest.fixture(scope="module")
def compiled(tiny: Tiny) -> Compile:
    """A tiny model's code by model, level and threads."""

    @cache
    def run(name: str, level: str, threads: int) -> Executable:
        return lamina.compile(tiny(name)[1], f'cpu{{features="{level}"}}', threads=threads)

    return run


@pytest.fixture(scope="module")
def alone(compiled: Compile) -> Callable[[str, str], Mapping[str, np.ndarray]]:
    """The logits of every prompt by itself, in one step, on one thread."""

    @cache
    def run(name: str, level: str) -> Mapping[str, np.ndarray]:
        executable = compiled(name, level, 1)
        return {p: serve(executable, [{p: PROMPTS[p]}], seed=0)[p] for p in PROMPTS}

    return run


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("serving", SERVINGS)
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", MODELS)
def test_serving_does_not_matter(
    compiled: Compile,
    alone: Callable[[str, str], Mapping[str, np.ndarray]],
    name: str,
    level: str,
    serving: str,
    threads: int,
) -> None:
    found = serve(compiled(name, level, threads), SERVINGS[serving], seed=threads)
    for prompt, logits in found.items():
        assert np.array_equal(logits, alone(name, level)[prompt])


@pytest.fixture(scope="module")
def meant(tiny: Tiny) -> Callable[[str], np.ndarray]:
    """What the plan of a model means for the third prompt."""

    @cache
    def run(name: str) -> np.ndarray:
        model = tiny(name)[1]
        plan = compiler.lower(model, "cpu")
        reference = lamina.compile(plan, "reference", pipeline=(), weights=model.weights)
        return serve(reference, chunks("c", 18), seed=0)["c"]

    return run


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", MODELS)
def test_every_level_computes_what_the_plan_means(
    alone: Callable[[str, str], Mapping[str, np.ndarray]],
    meant: Callable[[str], np.ndarray],
    name: str,
    level: str,
) -> None:
    found = alone(name, level)["c"]
    np.testing.assert_allclose(found, meant(name), rtol=0, atol=MODELS[name])
