"""Ctrl-C ends what the CPU is doing within half a second, and leaves the model usable."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

import checkpoints
import numpy as np
import pytest

import lamina

LONG = np.random.default_rng(0).integers(0, checkpoints.VOCAB, 16_000).tolist()
SHORT = LONG[:9]
SOON = 0.5
"""Seconds in which an interrupt is to be answered."""


@pytest.fixture(scope="module", params=[1, 2])
def llm(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[lamina.LLM]:
    """A tiny model whose steps take a whole prompt, however long."""
    tiny = checkpoints.of_llama(max_position_embeddings=2**15)
    path = tiny.write(tmp_path_factory.mktemp("llama"))
    with lamina.LLM(path, threads=request.param, cache_tokens=2**15, chunk_tokens=2**15) as llm:
        yield llm


def seconds_to_end(act: Callable[[], object]) -> float:
    """How long `act` goes on after an interrupt that comes while it runs."""
    sent: list[float] = []

    def interrupt() -> None:
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(0.15, interrupt)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            act()
        return time.perf_counter() - sent[0]
    finally:
        timer.cancel()


@pytest.mark.parametrize(
    "act",
    [
        lambda llm: llm.logits(LONG),
        lambda llm: llm.generate([SHORT, LONG], max_new_tokens=2),
        lambda llm: llm.generate([SHORT, SHORT], max_new_tokens=16_000),
        lambda llm: list(llm.stream(SHORT, max_new_tokens=30_000)),
    ],
    ids=["a step", "a prompt", "a batch", "a stream"],
)
def test_an_interrupt_ends_it_soon(llm: lamina.LLM, act: Callable[[lamina.LLM], object]) -> None:
    before, free = llm.logits(SHORT), llm.session.pages.free
    assert seconds_to_end(lambda: act(llm)) < SOON
    assert llm.session.pages.free == free
    assert np.array_equal(llm.logits(SHORT), before)
