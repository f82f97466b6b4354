from collections.abc import Mapping

import numpy as np
import pytest
from history_model import INPUTS, POOL, HistoryModel, binding

from lamina.errors import InputError
from lamina.runtime.batch import Part
from lamina.runtime.chunk_size import ChunkSize
from lamina.runtime.scoring import token_logits
from lamina.runtime.session import Session
from lamina.targets.base import Signature
from lamina.targets.memory import empty

PROMPT = np.random.default_rng(0).integers(0, 64, 150).tolist()
WHOLE = token_logits(Session(HistoryModel(64), 160, chunk_tokens=1000), PROMPT)


@pytest.mark.parametrize("chunk", [1, 7, 64, None])
def test_chunks_leave_logits_as_they_are(chunk: int | None) -> None:
    session = Session(HistoryModel(64), 160, chunk_tokens=chunk)
    assert np.array_equal(token_logits(session, PROMPT), WHOLE)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_order_of_physical_pages_leaves_logits_as_they_are(seed: int) -> None:
    session = Session(HistoryModel(64), 320, page_seed=seed)
    assert np.array_equal(token_logits(session, PROMPT), WHOLE)


def test_a_session_can_be_used_again() -> None:
    session = Session(HistoryModel(64), 160)
    token_logits(session, PROMPT[::-1])
    assert np.array_equal(token_logits(session, PROMPT), WHOLE)
    assert session.pages.free == session.pages.count == 10


def test_pools_grow_with_the_pages_of_steps_and_keep_what_is_in_them() -> None:
    model, sizes = HistoryModel(64), list[int]()
    model.before = lambda inputs: sizes.append(len(inputs["history"]))
    session = Session(model, 480)
    own = session.pages.take(1, 10)
    assert own is not None
    session.step([Part(PROMPT[:100], 0, own)], np.copy)
    for owner, count in ((2, 1), (3, 15)):
        other = session.pages.take(owner, count)
        assert other is not None
        parts = [Part(PROMPT[100:], 100, own, rows=50), Part([1], 0, other)]
        assert np.array_equal(session.step(parts, np.copy), WHOLE[100:])
    assert sizes == [10, 20, 30]


def test_pages_that_others_were_lent_take_no_memory_before_their_steps() -> None:
    model, sizes = HistoryModel(64), list[int]()
    model.before = lambda inputs: sizes.append(len(inputs["history"]))
    session = Session(model, 1600)
    own, _ = session.pages.take(1, 10), session.pages.take(2, 90)
    assert own is not None
    logits = session.step([Part(PROMPT, 0, own, rows=150)], np.copy)
    assert np.array_equal(logits, WHOLE)
    assert sizes == [10]


class LentMemory:
    """Has states of its own until it lets go, as a device has; all outputs lie in one place."""

    def __init__(self, model: HistoryModel, states: Mapping[str, np.ndarray]) -> None:
        self.model, self.place = model, np.empty((64, 64), np.float32)
        self.hold(states)

    def hold(self, states: Mapping[str, np.ndarray]) -> None:
        self.states = states
        self.own = {name: empty(each.shape, each.dtype) for name, each in states.items()}
        for name, array in states.items():
            self.own[name][...] = array

    def let_go(self) -> None:
        for name, array in self.states.items():
            array[...] = self.own[name]

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        logits = self.model(**inputs, **self.own)["logits"]
        self.place[: len(logits)] = logits
        return {"logits": self.place[: len(logits)]}


class LendingModel(HistoryModel):
    """Lends memory to its callers."""

    def session(self, states: Mapping[str, np.ndarray]) -> LentMemory:
        return LentMemory(self, states)


def test_memory_that_an_executable_lends_is_used_and_left_before_the_next_step() -> None:
    session = Session(LendingModel(64), 160, chunk_tokens=40)
    assert np.array_equal(token_logits(session, PROMPT), WHOLE)


def changed(**fields: object) -> HistoryModel:
    model = HistoryModel(64)
    model.signature = Signature(
        **{  # type: ignore[arg-type]
            "inputs": INPUTS,
            "outputs": model.outputs,
            "states": (POOL,),
            **fields,
        }
    )
    return model


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"inputs": INPUTS[1:]}, r"writes no text: .* got one that takes tokens, positions"),
        ({"outputs": ()}, r"expected logits \[R, n\], got nothing"),
        ({"outputs": (binding("logits", "f32", "R", "N"),)}, "expected logits"),
        ({"states": ()}, r"pages of \[\] positions: expected one size"),
        ({"states": (binding("length", "i32", "S"),)}, "'length' is .S.: expected a pool"),
    ],
)
def test_what_is_no_decoder_is_refused(fields: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Session(changed(**fields), 160)


@pytest.mark.parametrize("cache_tokens", [0, -1, 2**31])
def test_a_cache_of_no_size_is_refused(cache_tokens: int) -> None:
    with pytest.raises(
        InputError, match=f"cache_tokens is {cache_tokens}: expected a whole number"
    ):
        Session(HistoryModel(64), cache_tokens)


def test_chunks_follow_the_speed_of_steps() -> None:
    chunk = ChunkSize()
    sizes = [chunk.tokens]
    for seconds in (0.05, 0.5, 7.0, 0.001):
        chunk.took(chunk.tokens, seconds)
        sizes.append(chunk.tokens)
    assert sizes == [32, 128, 88, 8, 128]


def test_a_chunk_of_no_tokens_is_refused() -> None:
    with pytest.raises(InputError, match="chunk_tokens is 0: expected a whole number from 1"):
        ChunkSize(0)
