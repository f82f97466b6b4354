"""Whole models through sessions: what a prompt gives alone, it gives in any batch."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import numpy_llama
import pytest
from checkpoints import CHECKPOINTS, LLAMA, Checkpoint

import lamina
from lamina.errors import InputError
from lamina.runtime.batch import Part
from lamina.runtime.scoring import token_logits
from lamina.runtime.session import Session
from lamina.targets.base import Executable

RNG = np.random.default_rng(4)
PROMPTS = [RNG.integers(0, 301, n).tolist() for n in (70, 1, 16, 33)]

TARGETS = {"reference": 2e-5}
"""How far logits may differ between batches: by rounding, or not at all."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Checkpoint, Path]]:
    @cache
    def write(name: str) -> tuple[Checkpoint, Path]:
        checkpoint = CHECKPOINTS[name]()
        return checkpoint, checkpoint.write(tmp_path_factory.mktemp(name))

    return write


@pytest.fixture(scope="module", params=TARGETS)
def target(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def executable(folder: Callable, target: str) -> Executable:
    return lamina.compile(lamina.read(folder("llama")[1]), target)


@pytest.fixture(scope="module")
def wholes(executable: Executable) -> list[np.ndarray]:
    return [token_logits(Session(executable, 256, chunk_tokens=256), ids) for ids in PROMPTS]


@pytest.fixture
def same(target: str) -> Callable[[np.ndarray, np.ndarray], None]:
    def check(found: np.ndarray, expected: np.ndarray) -> None:
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=0, atol=TARGETS[target])

    return check


def test_logits_are_those_of_the_model(folder: Callable, wholes: list[np.ndarray]) -> None:
    expected = numpy_llama.logits(folder("llama")[0].arrays, LLAMA, PROMPTS[0])
    np.testing.assert_allclose(wholes[0], expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_chunks_do_not_matter(executable: Executable, wholes: list, same: Callable, chunk: int):
    session = Session(executable, 256, chunk_tokens=chunk)
    same(token_logits(session, PROMPTS[0]), wholes[0])


def test_physical_pages_do_not_matter(executable: Executable, wholes: list, same: Callable):
    same(token_logits(Session(executable, 256, page_seed=5), PROMPTS[0]), wholes[0])


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 1, 0, 2]])
def test_neighbours_do_not_matter(
    executable: Executable, wholes: list, same: Callable, order: list[int]
) -> None:
    session = Session(executable, 256, page_seed=1)
    parts = []
    for number in order:
        pages = session.pages.take(number + 1, session.pages_for(len(PROMPTS[number])))
        assert pages is not None
        parts.append(Part(PROMPTS[number], 0, pages, len(PROMPTS[number])))
    found = session.step(parts, np.copy)
    same(found, np.concatenate([wholes[number] for number in order]))


def test_decoding_goes_on_from_prompts_of_others(executable: Executable, same: Callable) -> None:
    session, ids = Session(executable, 256, page_seed=2), PROMPTS[0]
    expected = token_logits(Session(executable, 256), ids)[-1:]
    own, other = (session.pages.take(n, 5) for n in (1, 2))
    assert own is not None
    assert other is not None
    session.step([Part(ids[:-1], 0, own)], np.copy)
    found = session.step([Part(PROMPTS[3], 0, other), Part(ids[-1:], 69, own, 1)], np.copy)
    same(found, expected)


def test_greedy_text_takes_the_largest_logits(folder: Callable, target: str) -> None:
    checkpoint, path = folder("llama")
    (done,) = lamina.LLM(path, target).generate([PROMPTS[2]], max_new_tokens=4)
    logits = numpy_llama.logits(checkpoint.arrays, LLAMA, [*PROMPTS[2], *done.token_ids])
    assert done.token_ids == logits[15:-1].argmax(-1).tolist()


def test_an_encoder_writes_no_text(folder: Callable, target: str) -> None:
    with pytest.raises(InputError, match=r"the model writes no text: .* takes input_ids"):
        lamina.LLM(folder("bert")[1], target)


def test_a_context_comes_from_the_model(folder: Callable, target: str) -> None:
    llm = lamina.LLM(folder("llama")[1], target)
    with pytest.raises(InputError, match="the context of the model is 512"):
        llm.generate([[1] * 513])
