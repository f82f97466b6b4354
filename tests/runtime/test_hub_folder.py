"""A model as a download cache keeps it: a folder of links, its weights in shards."""

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import numpy as np
import numpy_llama
import pytest
from checkpoints import LLAMA, PLAIN, llama
from history_model import byte_tokenizer
from safetensors.numpy import save

import lamina
from lamina.errors import LaminaError

SHARDS = 3
ARRAYS = {name: array.astype(PLAIN["bf16"]) for name, array in llama(LLAMA).items()}


def files() -> Iterator[tuple[str, bytes]]:
    """The files of the model by name; a shard has every third tensor."""
    yield "config.json", json.dumps(LLAMA).encode()
    yield "tokenizer.json", byte_tokenizer().backend.to_str().encode()
    where: dict[str, str] = {}
    for n in range(SHARDS):
        names = list(ARRAYS)[n::SHARDS]
        file = f"model-{n + 1:05}-of-{SHARDS:05}.safetensors"
        where |= dict.fromkeys(names, file)
        yield file, save({name: ARRAYS[name] for name in names})
    index = {"metadata": {"total_size": 0}, "weight_map": where}
    yield "model.safetensors.index.json", json.dumps(index).encode()


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """The folder of links, each to a file that is named for its contents."""
    blobs, folder = tmp_path / "blobs", tmp_path / "snapshots" / "0f3a"
    blobs.mkdir()
    folder.mkdir(parents=True)
    for name, data in files():
        digest = sha256(data).hexdigest()
        (blobs / digest).write_bytes(data)
        (folder / name).symlink_to(Path("..", "..", "blobs", digest))
    return folder


def test_shards_behind_links_are_one_model(snapshot: Path) -> None:
    ids = byte_tokenizer().encode("one two")
    with lamina.LLM(snapshot, threads=2, cache_tokens=64, activations="f32") as llm:
        found = llm.logits(ids)
        (done,) = llm.generate(["one two"], max_new_tokens=4)
    np.testing.assert_allclose(found, numpy_llama.logits(ARRAYS, LLAMA, ids), rtol=0, atol=1e-4)
    assert done.timings["prompt_tokens"] == len(ids)


@pytest.mark.parametrize(
    "name", ["model-00002-of-00003.safetensors", "model.safetensors.index.json", "config.json"]
)
def test_a_link_that_leads_nowhere_is_named(snapshot: Path, name: str) -> None:
    (snapshot / name).resolve().unlink()
    with pytest.raises(LaminaError, match=name):
        lamina.LLM(snapshot)
