"""Whole models through sessions: what a prompt gives alone, it gives in any batch."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy_llama
import pytest
from checkpoints import CHECKPOINTS, LLAMA, Checkpoint

import lamina
from lamina.errors import InputError
from lamina.frontend.decoder import PAGE
from lamina.runtime.batch import Part
from lamina.runtime.scoring import token_logits
from lamina.runtime.session import Session
from lamina.targets.base import Executable

RNG = np.random.default_rng(4)
PROMPTS = [RNG.integers(0, 301, n).tolist() for n in (70, 1, 16, 33)]

Folder = Callable[[str], tuple[Checkpoint, Path]]
Same = Callable[[np.ndarray, np.ndarray], None]


@dataclass(frozen=True)
class Case:
    """A model on a target: how far logits may be from the model's, and from each other."""

    model: str
    target: str
    accuracy: float
    rounding: float = 0.0


CASES = {
    "reference": Case("llama", "reference", 1e-4, rounding=2e-5),
    "cpu": Case("llama", 'cpu{kv="f32"}', 1e-4),
    "cpu-quantised": Case("gguf-q4_1", "cpu", 0.2),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    @cache
    def write(name: str) -> tuple[Checkpoint, Path]:
        checkpoint = CHECKPOINTS[name]()
        return checkpoint, checkpoint.write(tmp_path_factory.mktemp(name))

    return write


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@pytest.fixture(scope="module")
def executable(folder: Folder, case: Case) -> Executable:
    return lamina.compile(lamina.read(folder(case.model)[1]), case.target, threads=1)


@pytest.fixture(scope="module")
def wholes(executable: Executable) -> list[np.ndarray]:
    return [token_logits(Session(executable, 256, chunk_tokens=256), ids) for ids in PROMPTS]


@pytest.fixture
def same(case: Case) -> Same:
    def check(found: np.ndarray, expected: np.ndarray) -> None:
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=0, atol=case.rounding)

    return check


def test_logits_are_those_of_the_model(folder: Folder, case: Case, wholes: list) -> None:
    expected = numpy_llama.logits(folder(case.model)[0].arrays, LLAMA, PROMPTS[0])
    np.testing.assert_allclose(wholes[0], expected, rtol=0, atol=case.accuracy)


@pytest.mark.parametrize("chunk", [1, 7, 16, 64])
def test_chunks_do_not_matter(executable: Executable, wholes: list, same: Same, chunk: int) -> None:
    session = Session(executable, 256, chunk_tokens=chunk)
    same(token_logits(session, PROMPTS[0]), wholes[0])


def test_a_chunk_of_512_does_not_matter(executable: Executable, same: Same) -> None:
    ids = np.random.default_rng(5).integers(0, 301, 530).tolist()
    whole, parts = (
        token_logits(Session(executable, 544, chunk_tokens=size), ids) for size in (544, 512)
    )
    same(parts, whole)


def test_physical_pages_do_not_matter(executable: Executable, wholes: list, same: Same) -> None:
    same(token_logits(Session(executable, 256, page_seed=5), PROMPTS[0]), wholes[0])


def test_threads_do_not_matter(folder: Folder, case: Case, wholes: list, same: Same) -> None:
    two = lamina.compile(lamina.read(folder(case.model)[1]), case.target, threads=2)
    same(token_logits(Session(two, 256, chunk_tokens=33), PROMPTS[0]), wholes[0])


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 1, 0, 2]], ids=str)
def test_neighbours_do_not_matter(
    executable: Executable, wholes: list, same: Same, order: list[int]
) -> None:
    session, parts = Session(executable, 1024, page_seed=1), []
    for number in order:
        pages = session.pages.take(number + 1, session.pages_for(len(PROMPTS[number])))
        assert pages is not None
        parts.append(Part(PROMPTS[number], 0, pages, len(PROMPTS[number])))
    found = session.step(parts, np.copy)
    same(found, np.concatenate([wholes[number] for number in order]))


@pytest.mark.parametrize("count", [1, 7, 31])
def test_any_number_of_neighbours_does_not_matter(
    executable: Executable, wholes: list, same: Same, count: int
) -> None:
    session, rng, own = Session(executable, PAGE * (count + 4), page_seed=3), RNG, count // 2
    prompts = [rng.integers(0, 301, rng.integers(2, 16)).tolist() for _ in range(count)]
    prompts.insert(own, PROMPTS[3])
    pages = [session.pages.take(n, session.pages_for(len(ids))) for n, ids in enumerate(prompts, 1)]
    session.step([Part(ids[:-1], 0, p) for ids, p in zip(prompts, pages, strict=True)], np.copy)
    last = [Part(ids[-1:], len(ids) - 1, p, 1) for ids, p in zip(prompts, pages, strict=True)]
    same(session.step(last, np.copy)[own], wholes[3][-1])


def test_decoding_goes_on_beside_prompts_of_others(
    executable: Executable, wholes: list, same: Same
) -> None:
    session, ids = Session(executable, 1024, page_seed=2), PROMPTS[0]
    own, other = (session.pages.take(n, 5) for n in (1, 2))
    assert own is not None
    assert other is not None
    session.step([Part(ids[:-1], 0, own)], np.copy)
    found = session.step([Part(PROMPTS[3], 0, other), Part(ids[-1:], 69, own, 1)], np.copy)
    same(found, wholes[0][-1:])


def test_greedy_text_takes_the_largest_logits(folder: Folder, case: Case) -> None:
    llm = lamina.LLM(folder(case.model)[1], case.target)
    (done,) = llm.generate([PROMPTS[2]], max_new_tokens=4)
    logits = llm.logits([*PROMPTS[2], *done.token_ids])
    assert done.token_ids == logits[15:-1].argmax(-1).tolist()


def test_a_context_comes_from_the_model(folder: Folder, case: Case) -> None:
    llm = lamina.LLM(folder(case.model)[1], case.target)
    with pytest.raises(InputError, match="the context of the model is 512"):
        llm.generate([[1] * 513])


def test_an_encoder_writes_no_text(folder: Folder) -> None:
    with pytest.raises(InputError, match=r"the model writes no text: .* takes input_ids"):
        lamina.LLM(folder("bert")[1], "reference")
