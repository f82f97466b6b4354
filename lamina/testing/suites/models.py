"""Cases of tiny whole models, with weights of chance, as the front ends build them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from zlib import crc32

import numpy as np

from lamina.dialects.block_types import BLOCK_TYPES
from lamina.frontend import bert, gpt2, llama
from lamina.frontend.model import ModelConfig, Weight, Weights
from lamina.frontend.pooling import Pooling
from lamina.frontend.rope import Rope
from lamina.testing.case import Case
from lamina.testing.ragged import Sequences
from lamina.testing.sheet import Arrays, Sheet
from lamina.testing.suites.quantised import blocks
from lamina.testing.suites.ragged import HALVES, growth

LLAMA = ModelConfig(
    architecture="llama",
    vocab_size=61,
    context_length=64,
    hidden_size=64,
    intermediate_size=72,
    layers=2,
    heads=4,
    kv_heads=2,
    head_dim=16,
    norm_eps=1e-5,
    activation="silu",
    rope=Rope(10000.0, 16, "half_split"),
)
GPT2 = replace(
    LLAMA, architecture="gpt2", kv_heads=4, activation="gelu_tanh", rope=None, hidden_size=64
)
BERT = replace(
    GPT2, architecture="bert", activation="gelu", token_types=2, pooling=Pooling("mean", True)
)

LOGITS = 4 * HALVES
"""How far logits around 1 may be off where a target keeps pages in f16."""

QUANTISED_LOGITS = 0.3
"""The same where it makes activations 8-bit, too."""

SIZES = (0, 1, 3, 20)


def cases() -> Iterator[Case]:
    """Yield the models."""
    yield Case("llama", partial(_llama, "f32", LOGITS), SIZES)
    yield Case("llama-of-blocks", partial(_llama, "q8_0", QUANTISED_LOGITS), SIZES)
    yield Case("gpt2", _gpt2, SIZES)
    yield Case("bert", _bert, SIZES)


class Invented(Weights):
    """Weights that are whatever a graph asks for: matrices of `format`, all else f32."""

    def __init__(self, format: str) -> None:
        super().__init__((), "the case")
        self.format = format

    def expect(self, name: str, shape: tuple[int, ...]) -> Weight:
        """Return the weight `name`, made of chance when it is first asked for."""
        if name not in self:
            self._weights[name] = self._invent(name, shape)
        return super().expect(name, shape)

    def _invent(self, name: str, shape: tuple[int, ...]) -> Weight:
        seed = crc32(name.encode())
        kind = BLOCK_TYPES.get(self.format)
        if kind and len(shape) == 2 and not shape[1] % kind.elements and not kind.plain:
            return Weight(name, self.format, shape, blocks(self.format, *shape, seed))
        rng = np.random.default_rng(seed)
        if len(shape) == 1:
            middle = 1.0 if name.endswith("weight") else 0.0
            return Weight.of(name, rng.normal(middle, 0.1, shape).astype(np.float32))
        return Weight.of(name, rng.normal(0, shape[-1] ** -0.5, shape).astype(np.float32))


def _llama(format: str, atol: float, sheet: Sheet) -> None:
    weights = Invented(format)
    sheet.adopt(llama.build(LLAMA, weights), weights)
    sheet.declare("logits", of="model", atol=atol)
    sheet.calls = conversation


def _gpt2(sheet: Sheet) -> None:
    weights = Invented("f32")
    sheet.adopt(gpt2.build(GPT2, weights), weights)
    sheet.declare("logits", of="model", atol=LOGITS)
    sheet.calls = conversation


def conversation(rng: np.random.Generator, size: int) -> Sequence[Arrays]:
    """Return the inputs of a decoder's calls: sequences that grow by up to `size` tokens."""
    sequences, found = Sequences(rng), list[Arrays]()
    for counts in growth(size):
        batch = sequences.grow(counts)
        count = len(batch["positions"])
        tokens = rng.integers(0, LLAMA.vocab_size, count).astype(np.int32)
        rows = rng.permutation(count)[: count // 2 + 1].astype(np.int32)
        found.append({**batch, "tokens": tokens, "rows": rows})
    return found


def _bert(sheet: Sheet) -> None:
    weights = Invented("f32")
    sheet.adopt(bert.build(BERT, weights), weights)
    sheet.declare("last_hidden_state", of="model", atol=1e-4)
    sheet.declare("sentence_embedding", of="model", atol=1e-4)
    sheet.calls = _sentences


def _sentences(rng: np.random.Generator, size: int) -> Sequence[Arrays]:
    shape = (min(size, 3), size)
    shown = np.arange(size) < rng.integers(1, size + 2, (shape[0], 1))
    drawn = {
        "input_ids": rng.integers(0, BERT.vocab_size, shape),
        "attention_mask": shown,
        "token_type_ids": rng.integers(0, BERT.token_types, shape),
    }
    return [{name: values.astype(np.int32) for name, values in drawn.items()}]
