"""A prompt of 32k tokens, in memory that grows with its length and no faster."""

import resource

import numpy as np
import pytest
from checkpoints import VOCAB, GgufSizes, of_gguf

import lamina
from lamina.runtime.batch import Part
from lamina.runtime.session import Session
from lamina.targets.base import Executable

SIZES = GgufSizes(hidden=32, between=64, heads=1, kv_heads=1, layers=1)
LENGTH = 2**15
PROMPT = np.random.default_rng(0).integers(0, VOCAB, LENGTH).tolist()


@pytest.fixture(scope="module")
def executable(tmp_path_factory: pytest.TempPathFactory) -> Executable:
    folder = tmp_path_factory.mktemp("long")
    return lamina.compile(lamina.read(of_gguf("f32", sizes=SIZES).write(folder)), "cpu")


def last_logits(executable: Executable, chunk: int) -> np.ndarray:
    session = Session(executable, LENGTH)
    pages = session.pages.take(1, session.pages_for(LENGTH))
    starts = range(0, LENGTH, chunk)
    parts = (Part(PROMPT[at : at + chunk], at, pages, int(at + chunk == LENGTH)) for at in starts)
    return [session.step([part], np.copy) for part in parts][-1]


def most_resident() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def test_a_prompt_of_32k_tokens_needs_no_square_of_memory(executable: Executable) -> None:
    before = most_resident()
    whole = last_logits(executable, LENGTH)
    assert most_resident() - before < LENGTH**2 // 8
    assert np.array_equal(last_logits(executable, 512), whole)
