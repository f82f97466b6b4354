from collections.abc import Callable, Mapping

import numpy as np
import numpy_bert
import numpy_gpt2
import numpy_llama
import pytest
from checkpoints import DECODERS, VOCAB, Checkpoint
from ragged import Sequences

from lamina.errors import InputError
from lamina.frontend.model import Model

Tiny = Callable[[str], tuple[Checkpoint, Model]]
Run = Callable[..., Mapping[str, np.ndarray]]
EXACT = {"llama": numpy_llama.logits, "gpt2": numpy_gpt2.logits}
A, B = (np.random.default_rng(n).integers(0, VOCAB, 40).tolist() for n in (0, 1))


class Decoder:
    """A tiny decoder, its imported graph run by the operations' meanings."""

    def __init__(self, checkpoint: Checkpoint, model: Model, run: Callable[[Model], Run]) -> None:
        self.checkpoint, self.call = checkpoint, run(model)
        assert model.config is not None
        self.config = model.config

    def exact(self, tokens: list[int]) -> np.ndarray:
        logits = EXACT[self.checkpoint.kind]
        return logits(self.checkpoint.arrays, self.checkpoint.settings, tokens)

    def sequences(self, seed: int = 0) -> Sequences:
        config = self.config
        return Sequences(config.layers, config.kv_heads, config.head_dim, seed)


@pytest.fixture(params=DECODERS)
def decoder(request: pytest.FixtureRequest, tiny: Tiny, meaning: Callable[[Model], Run]) -> Decoder:
    return Decoder(*tiny(request.param), meaning)


def close(found: np.ndarray, exact: np.ndarray) -> None:
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-4)


def test_one_sequence_has_the_logits_of_the_numpy_model(decoder: Decoder) -> None:
    close(decoder.sequences().step(decoder.call, a=A)["a"], decoder.exact(A))


def test_two_sequences_of_different_length_do_not_mix(decoder: Decoder) -> None:
    found = decoder.sequences().step(decoder.call, a=A[:33], b=B[:5])
    close(found["a"], decoder.exact(A[:33]))
    close(found["b"], decoder.exact(B[:5]))


def test_tokens_that_come_later_see_the_pages_of_earlier_ones(decoder: Decoder) -> None:
    sequences = decoder.sequences()
    sequences.step(decoder.call, a=A[:15], b=B[:3])
    for place in range(15, 18):
        found = sequences.step(decoder.call, b=[B[place - 12]], a=[A[place]])
    close(found["a"], decoder.exact(A[:18])[-1:])
    close(found["b"], decoder.exact(B[:6])[-1:])


@pytest.mark.parametrize("chunk", [1, 7])
def test_a_prompt_may_come_in_chunks(
    tiny: Tiny, meaning: Callable[[Model], Run], chunk: int
) -> None:
    decoder = Decoder(*tiny("gguf-q4_1"), meaning)
    sequences = decoder.sequences()
    parts = [A[at : at + chunk] for at in range(0, 21, chunk)]
    found = [sequences.step(decoder.call, a=part)["a"] for part in parts]
    close(np.concatenate(found), decoder.exact(A[:21]))


def test_only_the_rows_asked_for_have_logits(tiny: Tiny, meaning: Callable[[Model], Run]) -> None:
    decoder = Decoder(*tiny("llama"), meaning)
    sequences = decoder.sequences()
    inputs = sequences.batch({"a": A[:9]}) | {"rows": np.int32([8, 2])}
    found = decoder.call(**inputs, **sequences.pools)["logits"]
    close(found, decoder.exact(A[:9])[[8, 2]])


def test_a_token_beyond_the_vocabulary_is_an_error_that_names_the_node(
    tiny: Tiny, meaning: Callable[[Model], Run]
) -> None:
    decoder = Decoder(*tiny("llama"), meaning)
    with pytest.raises(InputError, match=f"/embed_tokens.*{VOCAB}"):
        decoder.sequences().step(decoder.call, a=[VOCAB])


def test_a_position_beyond_the_learned_ones_is_an_error_that_names_the_node(
    tiny: Tiny, meaning: Callable[[Model], Run]
) -> None:
    decoder = Decoder(*tiny("gpt2"), meaning)
    with pytest.raises(InputError, match=r"/wpe.*128"):
        decoder.sequences().step(decoder.call, a=[0] * 129)


IDS = np.random.default_rng(2).integers(0, VOCAB, (2, 9)).astype(np.int32)
SEGMENTS = np.repeat(np.int32([[0, 1]]), 2, 0)[:, [0, 0, 0, 1, 1, 1, 1, 1, 1]]
MASK = np.int32([[1] * 9, [1] * 5 + [0] * 4])


def test_an_encoder_has_the_vectors_of_the_numpy_model(
    tiny: Tiny, meaning: Callable[[Model], Run]
) -> None:
    checkpoint, model = tiny("bert")
    found = meaning(model)(input_ids=IDS, attention_mask=MASK, token_type_ids=SEGMENTS)
    exact = numpy_bert.last_hidden_state(
        checkpoint.arrays, checkpoint.settings, IDS, MASK, SEGMENTS
    )
    close(found["last_hidden_state"], exact)
    close(found["sentence_embedding"], numpy_bert.mean_embedding(exact, MASK))


def test_a_sequence_that_is_all_padding_has_finite_vectors(
    tiny: Tiny, meaning: Callable[[Model], Run]
) -> None:
    _, model = tiny("bert")
    found = meaning(model)(input_ids=IDS, attention_mask=0 * MASK, token_type_ids=SEGMENTS)
    assert all(np.isfinite(array).all() for array in found.values())
