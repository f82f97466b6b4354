"""Tiny models on the adapter, by way of sessions whose pages stay there and grow."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy_gpt2
import numpy_llama
import pytest
from checkpoints import CHECKPOINTS, VOCAB

import lamina

pytestmark = pytest.mark.gpu

EXACT = {"llama": numpy_llama.logits, "gpt2": numpy_gpt2.logits}
TOKENS = np.random.default_rng(0).integers(0, VOCAB, 40).tolist()
LONG, SHORT = TOKENS, TOKENS[5:12]


@pytest.fixture(scope="module", params=["llama", "gpt2"])
def folder(request, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    return request.param, CHECKPOINTS[request.param]().write(tmp_path_factory.mktemp(request.param))


@pytest.fixture(scope="module")
def load(device, folder) -> Callable[..., lamina.LLM]:
    return lambda target="webgpu", **options: lamina.LLM(folder[1], target, **options)


def test_logits_are_those_of_the_numpy_model(load, folder):
    checkpoint = CHECKPOINTS[folder[0]]()
    exact = EXACT[folder[0]](checkpoint.arrays, checkpoint.settings, TOKENS)
    np.testing.assert_allclose(load().logits(TOKENS), exact, rtol=0, atol=2e-3)


def test_pages_that_grow_keep_what_was_written_of_every_sequence(load):
    found = load(chunk_tokens=16).generate([LONG, SHORT], max_new_tokens=20)
    expected = load("cpu", activations="f32").generate([LONG, SHORT], max_new_tokens=20)
    assert [each.token_ids for each in found] == [each.token_ids for each in expected]


def test_pages_of_half_the_size_are_nearly_as_exact(load):
    np.testing.assert_allclose(
        load("webgpu{kv=f16}").logits(TOKENS), load().logits(TOKENS), rtol=0, atol=0.05
    )


def test_a_model_whose_arrays_lie_in_windows_gives_the_same_bits(load):
    narrow = load("webgpu{bytes_bound=16384 bytes_held=40000}", cache_tokens=1024)
    np.testing.assert_array_equal(narrow.logits(SHORT), load().logits(SHORT))
