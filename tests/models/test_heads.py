"""Heads of any size, sharing keys in any ratio, compute what the float64 model does."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy_llama
import pytest
from checkpoints import VOCAB, Checkpoint, GgufSizes, of_gguf, of_llama
from decoding import run_steps

import lamina

TEXT = np.random.default_rng(0).integers(0, VOCAB, 40).tolist()
KV = {"f32": 2e-5, "f16": 5e-3, "bf16": 5e-2}
"""How far logits of around 1 may be off with pages of these elements."""


def worst(checkpoint: Checkpoint, folder: Path, kv: str) -> float:
    """How far any logit is off, with a prompt's first part in one step and the rest alone."""
    executable = lamina.compile(lamina.read(checkpoint.write(folder)), f'cpu{{kv="{kv}"}}')
    steps = [{"a": TEXT[:30]}, *({"a": [token]} for token in TEXT[30:])]
    exact = numpy_llama.logits(checkpoint.arrays, checkpoint.settings, TEXT)
    return float(abs(np.concatenate(run_steps(executable, steps)) - exact).max())


@pytest.mark.parametrize(
    ("size", "kv"), [(2, "f16"), (10, "f16"), (96, "f16"), (80, "f32"), (80, "bf16")]
)
def test_a_head_may_have_any_even_size(tmp_path: Path, size: int, kv: str) -> None:
    assert worst(of_llama(head_dim=size), tmp_path, kv) < KV[kv]


class WideHeads(GgufSizes):
    """Heads of 48 elements, which together are wider than the hidden size."""

    size = 48

    @property
    def narrow(self) -> int:
        return self.size * self.kv_heads

    @property
    def linears(self) -> Iterator[tuple[str, int, int]]:
        wide = self.size * self.heads
        own = {"attn_q": (wide, self.hidden), "attn_output": (self.hidden, wide)}
        for name, *shape in super().linears:
            yield name, *own.get(name, shape)

    @property
    def metadata(self) -> dict[str, object]:
        lengths = {f"llama.attention.{part}_length": self.size for part in ("key", "value")}
        return super().metadata | lengths

    @property
    def settings(self) -> dict[str, object]:
        return super().settings | {"head_dim": self.size}


def test_a_gguf_file_may_state_the_size_of_a_head(tmp_path: Path) -> None:
    assert worst(of_gguf("f32", sizes=WideHeads()), tmp_path, "f32") < KV["f32"]


@pytest.mark.parametrize(("heads", "kv_heads"), [(14, 2), (7, 1), (4, 4)])
def test_keys_may_be_shared_in_any_ratio(tmp_path: Path, heads: int, kv_heads: int) -> None:
    sizes = GgufSizes(hidden=16 * heads, heads=heads, kv_heads=kv_heads)
    assert worst(of_gguf("f32", sizes=sizes), tmp_path, "f32") < KV["f32"]
