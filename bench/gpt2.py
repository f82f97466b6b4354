"""Decoding speed of a decoder of the size of GPT-2 (124M), in f32, beside the reading limit.

    python bench/gpt2.py [--threads 1 2]

The checkpoint is random and written to a temporary folder as Hugging Face lays it out. Decoding is
32 tokens one at a time after a prompt of 8, through `generate`. A token reads the whole file once.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import command
import numpy as np
from command import Setting
from figures import Row
from generation import decode
from safetensors.numpy import save_file
from step import Array

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
NAME = "gpt2 decode"
PROMPT, STEPS = list(range(100, 108)), 32


def shapes() -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield every tensor of the checkpoint; linears are [in, out]."""
    yield "wte.weight", (SETTINGS["vocab_size"], WIDTH)
    yield "wpe.weight", (SETTINGS["n_positions"], WIDTH)
    norms = ["ln_f"]
    for layer in range(SETTINGS["n_layer"]):
        norms += [f"h.{layer}.ln_1", f"h.{layer}.ln_2"]
        for name, rows, columns in (
            ("attn.c_attn", WIDTH, 3 * WIDTH),
            ("attn.c_proj", WIDTH, WIDTH),
            ("mlp.c_fc", WIDTH, 4 * WIDTH),
            ("mlp.c_proj", 4 * WIDTH, WIDTH),
        ):
            yield f"h.{layer}.{name}.weight", (rows, columns)
            yield f"h.{layer}.{name}.bias", (columns,)
    for name in norms:
        yield f"{name}.weight", (WIDTH,)
        yield f"{name}.bias", (WIDTH,)


def checkpoint() -> dict[str, Array]:
    """Return random tensors, the scales of norms around 1."""
    rng, found = np.random.default_rng(0), dict[str, Array]()
    for name, shape in shapes():
        array = rng.standard_normal(shape, np.float32) * np.float32(0.02)
        found[name] = array + np.float32(".ln_" in f".{name}" and name.endswith(".weight"))
    return found


def measure(setting: Setting) -> Iterator[Row]:
    """Yield the row, if it is asked for."""
    if not setting.wants(NAME):
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "config.json").write_text(json.dumps(SETTINGS), encoding="utf-8")
        save_file(checkpoint(), path / "model.safetensors")
        size = (path / "model.safetensors").stat().st_size
        tokens = len(PROMPT) + STEPS + 1
        with lamina.LLM(
            path, setting.target, threads=setting.threads, cache_tokens=2 * tokens
        ) as llm:
            seconds = setting.times(lambda: decode(llm, PROMPT, STEPS))
    took = {side: parts[0] for side, parts in seconds.items()}
    yield Row(NAME, setting.threads, took, 1.0, "tokens/s", size / setting.limits.read)


SCRIPT = command.Script(None, measure, lambda row: row.name)

if __name__ == "__main__":
    command.main(__doc__, SCRIPT)
