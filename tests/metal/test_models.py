"""Tiny models, whole, on an imitated device."""

import numpy as np
import numpy_gpt2
import numpy_llama
import pytest
from checkpoints import CHECKPOINTS, VOCAB
from imitation import ImitatedTarget

import lamina
from lamina.targets.metal.emission import kernels_of
from lamina.targets.metal.msl import library_text

pytestmark = [pytest.mark.usefixtures("compiler"), pytest.mark.gpu]

EXACT = {"llama": numpy_llama.logits, "gpt2": numpy_gpt2.logits}
TOKENS = np.random.default_rng(0).integers(0, VOCAB, 40).tolist()


@pytest.fixture(scope="module", params=["llama", "gpt2"])
def both(request, tmp_path_factory):
    """A checkpoint, the model of it on the device, and what that was compiled to."""
    checkpoint = CHECKPOINTS[request.param]()
    path = checkpoint.write(tmp_path_factory.mktemp(request.param))
    target = ImitatedTarget()
    return checkpoint, lamina.LLM(lamina.read(path), target=target), target.loaded


def test_logits_are_those_of_the_numpy_model(both):
    checkpoint, model, _ = both
    exact = EXACT[checkpoint.kind](checkpoint.arrays, checkpoint.settings, TOKENS)
    np.testing.assert_allclose(model.logits(TOKENS), exact, rtol=0, atol=2e-3)


def test_tokens_are_those_of_the_numpy_model_one_step_after_another(both):
    checkpoint, model, _ = both
    (done,) = model.generate([TOKENS[:9]], max_new_tokens=5)
    expected = TOKENS[:9]
    for _ in range(5):
        logits = EXACT[checkpoint.kind](checkpoint.arrays, checkpoint.settings, expected)
        expected = [*expected, int(logits[-1].argmax())]
    assert list(done.token_ids) == expected[9:]


def test_kernels_are_well_typed(both):
    pytest.importorskip("clang", reason="Metal text is checked by the package libclang")
    from lamina.testing.msl import check

    (artifact,) = both[2]
    kernels = kernels_of(artifact)
    assert check(library_text(kernels)) == []
    assert len(kernels) > 5
