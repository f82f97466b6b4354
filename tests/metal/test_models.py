"""Tiny models, whole, on an imitated device."""

import numpy as np
import numpy_gpt2
import numpy_llama
import pytest
from checkpoints import CHECKPOINTS, VOCAB
from imitation import ImitatedTarget

import lamina

pytestmark = pytest.mark.usefixtures("compiler")

EXACT = {"llama": numpy_llama.logits, "gpt2": numpy_gpt2.logits}
TOKENS = np.random.default_rng(0).integers(0, VOCAB, 40).tolist()


@pytest.fixture(scope="module", params=["llama", "gpt2"])
def both(request, tmp_path_factory):
    """A checkpoint, and the model of it on the device."""
    checkpoint = CHECKPOINTS[request.param]()
    path = checkpoint.write(tmp_path_factory.mktemp(request.param))
    return checkpoint, lamina.LLM(lamina.read(path), target=ImitatedTarget())


def test_logits_are_those_of_the_numpy_model(both):
    checkpoint, model = both
    exact = EXACT[checkpoint.kind](checkpoint.arrays, checkpoint.settings, TOKENS)
    np.testing.assert_allclose(model.logits(TOKENS), exact, rtol=0, atol=2e-3)


def test_tokens_are_those_of_the_numpy_model_one_step_after_another(both):
    checkpoint, model = both
    (done,) = model.generate([TOKENS[:9]], max_new_tokens=5)
    expected = TOKENS[:9]
    for _ in range(5):
        logits = EXACT[checkpoint.kind](checkpoint.arrays, checkpoint.settings, expected)
        expected = [*expected, int(logits[-1].argmax())]
    assert list(done.token_ids) == expected[9:]
