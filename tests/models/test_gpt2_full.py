"""GPT-2 at its full size on the CPU, beside a float64 run in NumPy."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy_gpt2
import pytest
from checkpoints import save_folder

import lamina

SETTINGS: dict[str, Any] = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "vocab_size": 50257,
    "n_positions": 1024,
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
}
WIDTH = SETTINGS["n_embd"]
TOKENS = np.random.default_rng(1).integers(0, SETTINGS["vocab_size"], 33).tolist()


def shapes() -> Iterator[tuple[str, tuple[int, ...]]]:
    """Every tensor of the checkpoint by Hugging Face's names; linears are [in, out]."""
    yield "transformer.wte.weight", (SETTINGS["vocab_size"], WIDTH)
    yield "transformer.wpe.weight", (SETTINGS["n_positions"], WIDTH)
    for layer in range(SETTINGS["n_layer"]):
        at = f"transformer.h.{layer}"
        for name, rows, columns in (
            ("attn.c_attn", WIDTH, 3 * WIDTH),
            ("attn.c_proj", WIDTH, WIDTH),
            ("mlp.c_fc", WIDTH, 4 * WIDTH),
            ("mlp.c_proj", 4 * WIDTH, WIDTH),
        ):
            yield f"{at}.{name}.weight", (rows, columns)
            yield f"{at}.{name}.bias", (columns,)
        yield from norm(f"{at}.ln_1")
        yield from norm(f"{at}.ln_2")
    yield from norm("transformer.ln_f")


def norm(name: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", (WIDTH,)
    yield f"{name}.bias", (WIDTH,)


@pytest.fixture(scope="module")
def arrays() -> dict[str, np.ndarray]:
    """Random tensors, those of norms around 1."""
    rng = np.random.default_rng(0)
    found = {}
    for name, shape in shapes():
        array = found[name] = rng.standard_normal(shape, np.float32)
        array *= np.float32(0.02)
        array += np.float32(name.endswith(("ln_1.weight", "ln_2.weight", "ln_f.weight")))
    return found


@pytest.fixture
def folder(
    arrays: dict[str, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """The checkpoint, half a gigabyte of it while it is needed."""
    monkeypatch.setenv("LAMINA_DISK_CACHE", "off")
    yield save_folder(tmp_path, SETTINGS, arrays)
    (tmp_path / "model.safetensors").unlink()


def test_logits_are_those_of_float64(folder: Path, arrays: dict[str, np.ndarray]) -> None:
    with lamina.LLM(folder, threads=2, cache_tokens=64) as llm:
        found = llm.logits(TOKENS)
    exact = numpy_gpt2.logits(arrays, SETTINGS, TOKENS)
    np.testing.assert_allclose(found, exact, rtol=0, atol=2e-4)
