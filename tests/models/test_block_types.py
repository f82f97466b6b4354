"""Files of each block type, compiled: as exact as their numbers, the same in every batch."""

from collections.abc import Callable

import numpy as np
import numpy_gpt2
import numpy_llama
import pytest
from checkpoints import VOCAB, Checkpoint
from decoding import run_steps

import lamina
from lamina.frontend.model import Model
from lamina.targets.base import Executable

Tiny = Callable[[str], tuple[Checkpoint, Model]]
KINDS = ("q5_0", "q5_1", "q4_k", "q5_k", "q6_k", "mixed", "gpt2-q8_0")
EXACT = {"llama": numpy_llama.logits, "gpt2": numpy_gpt2.logits}
COSINES = {"auto": 0.999, "f32": 0.99999}
TEXT = np.random.default_rng(0).integers(0, VOCAB, 40).tolist()


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def exact(tiny: Tiny, kind: str) -> np.ndarray:
    checkpoint, _ = tiny(f"gguf-{kind}")
    return EXACT[checkpoint.kind](checkpoint.arrays, checkpoint.settings, TEXT)


@pytest.fixture(scope="module", params=COSINES)
def activations(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def executable(tiny: Tiny, kind: str, activations: str) -> Executable:
    return lamina.compile(tiny(f"gguf-{kind}")[1], f'cpu{{activations="{activations}"}}', threads=2)


def test_every_row_points_where_the_float64_model_does(
    executable: Executable, exact: np.ndarray, activations: str
) -> None:
    (found,) = run_steps(executable, [{"a": TEXT}])
    lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(exact, axis=1)
    assert ((found * exact).sum(1) / lengths).min() >= COSINES[activations]


def test_a_token_at_a_time_gives_the_bits_of_all_at_once(executable: Executable) -> None:
    (whole,) = run_steps(executable, [{"a": TEXT}])
    single = run_steps(executable, [{"a": [token]} for token in TEXT])
    np.testing.assert_array_equal(np.concatenate(single), whole)
