from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy_bert
import pytest

import lamina
from lamina.dialects.text import parse_module
from lamina.frontend.model import Model
from lamina.plugins import manager

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture(scope="module")
def smollm2(fetched: Callable[[str], Path]) -> Model:
    return lamina.read(fetched("smollm2"))


@pytest.fixture(scope="module")
def minilm(fetched: Callable[[str], Path]) -> Model:
    return lamina.read(fetched("minilm"))


def test_smollm2_is_at_least_fifteen_operations_a_layer(smollm2: Model) -> None:
    sources = [str(op.attributes.get("lamina.src")) for op in smollm2.module.walk()]
    assert smollm2.config is not None
    assert smollm2.config.layers == 30
    for layer in range(30):
        assert sum(f'"/layers.{layer}/' in source for source in sources) >= 15


def test_smollm2_takes_every_tensor_of_its_file(smollm2: Model) -> None:
    text = str(smollm2.module)
    assert all(f'{{lamina.weight = "{name}"}}' in text for name in smollm2.weights)


def test_the_imported_smollm2_is_its_own_text(smollm2: Model) -> None:
    text = str(smollm2.module)
    again = parse_module(manager.context(), text, "smollm2")
    assert again.is_structurally_equivalent(smollm2.module)
    assert str(again) == text


@pytest.mark.parametrize("target", ["reference", "cpu"])
def test_minilm_has_the_vectors_that_transformers_gives(minilm: Model, target: str) -> None:
    golden = np.load(GOLDEN / "minilm_hf.npz", allow_pickle=False)
    ids = golden["ids"].astype(np.int32)
    ones, zeros = np.ones_like(ids), np.zeros_like(ids)
    run = lamina.compile(minilm, target)
    found = run(input_ids=ids, attention_mask=ones, token_type_ids=zeros)
    np.testing.assert_allclose(found["last_hidden_state"], golden["last_hidden"], rtol=0, atol=2e-4)


def test_the_numpy_bert_has_the_vectors_that_transformers_gives(minilm: Model) -> None:
    golden = np.load(GOLDEN / "minilm_hf.npz", allow_pickle=False)
    arrays = {name: weight.array for name, weight in minilm.weights.items()}
    assert minilm.config is not None
    ones, zeros = np.ones_like(golden["ids"]), np.zeros_like(golden["ids"])
    exact = numpy_bert.last_hidden_state(arrays, minilm.config.metadata, golden["ids"], ones, zeros)
    np.testing.assert_allclose(exact, golden["last_hidden"], rtol=0, atol=5e-6)
