import re
from collections.abc import Callable
from pathlib import Path

import gguf_writer as g
import numpy as np
import pytest

from lamina.errors import FormatError, LaminaError, UnsupportedError
from lamina.frontend.config import config_from_gguf
from lamina.frontend.gguf import read_gguf
from lamina.frontend.model import ModelConfig
from lamina.frontend.rope import Rope

METADATA = {
    "general.architecture": "llama",
    "general.quantization_version": 2,
    "llama.context_length": 512,
    "llama.embedding_length": 96,
    "llama.block_count": 2,
    "llama.feed_forward_length": 200,
    "llama.attention.head_count": 6,
    "llama.attention.head_count_kv": 2,
    "llama.attention.layer_norm_rms_epsilon": 0.5,
    "llama.rope.freq_base": 100_000.0,
    "tokenizer.ggml.tokens": ["a", "<|im_end|>", "<|eot_id|>", "<|endoftext|>", "b", "c"],
    "tokenizer.ggml.token_type": (g.I32, [1, 3, 1, 3, 1, 1]),
    "tokenizer.ggml.bos_token_id": 4,
    "tokenizer.ggml.eos_token_id": 5,
}
Read = Callable[[dict[str, object]], ModelConfig]


@pytest.fixture
def metadata(write_gguf: Callable[..., Path]) -> Read:
    """Read the settings of a GGUF file with this metadata."""

    def read(values: dict[str, object]) -> ModelConfig:
        file = read_gguf(write_gguf(values, {"output.weight": np.zeros(1)}))
        return config_from_gguf(file.metadata, file.tensors, file.path)

    return read


def without(values: dict[str, object], key: str) -> dict[str, object]:
    return {name: value for name, value in values.items() if name != key}


def refused(read: Read, values: dict[str, object], error: type[LaminaError], said: str) -> None:
    with pytest.raises(error) as caught:
        read(values)
    assert re.search(said, str(caught.value)), str(caught.value)
    assert "model.gguf: " in str(caught.value)


def test_llama_metadata_gives_its_settings(metadata: Read) -> None:
    assert metadata(METADATA) == ModelConfig(
        architecture="llama",
        vocab_size=6,
        context_length=512,
        hidden_size=96,
        intermediate_size=200,
        layers=2,
        heads=6,
        kv_heads=2,
        head_dim=16,
        norm_eps=0.5,
        activation="silu",
        rope=Rope(100_000.0, 16, "adjacent"),
        tied_embeddings=False,
        bos_id=4,
        eos_ids=(5, 1, 3),
    )


GPT2 = {
    "general.architecture": "gpt2",
    "gpt2.context_length": 128,
    "gpt2.embedding_length": 96,
    "gpt2.block_count": 2,
    "gpt2.feed_forward_length": 200,
    "gpt2.attention.head_count": 6,
    "gpt2.attention.layer_norm_epsilon": 0.5,
    "tokenizer.ggml.tokens": ["a", "b"],
}


def test_gpt2_metadata_gives_its_settings(metadata: Read) -> None:
    assert metadata(GPT2) == ModelConfig(
        architecture="gpt2",
        vocab_size=2,
        context_length=128,
        hidden_size=96,
        intermediate_size=200,
        layers=2,
        heads=6,
        kv_heads=6,
        head_dim=16,
        norm_eps=0.5,
        activation="gelu_tanh",
        tied_embeddings=False,
        attention_bias=True,
        mlp_bias=True,
    )


@pytest.mark.parametrize(
    ("key", "value"), [("attention.head_count_kv", 3), ("attention.scale", 2.0)]
)
def test_what_gpt2_has_not_is_refused(key: str, value: object, metadata: Read) -> None:
    refused(metadata, {**GPT2, f"gpt2.{key}": value}, UnsupportedError, f"gpt2.{key}")


def test_an_embedding_without_an_output_is_tied() -> None:
    values = {**METADATA, "llama.vocab_size": 6}
    assert config_from_gguf(values, ["token_embd.weight"]).tied_embeddings
    assert config_from_gguf(values, ["blk.0.attn_q.bias"]).attention_bias


@pytest.mark.parametrize(
    ("change", "field", "found"),
    [
        ({"llama.attention.head_count_kv": (g.U32, [3, 3])}, "kv_heads", 3),
        ({"llama.attention.key_length": 32, "llama.attention.value_length": 32}, "head_dim", 32),
        ({"llama.vocab_size": 64}, "vocab_size", 64),
        (
            {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0},
            "context_length",
            2048,
        ),
        ({"llama.rope.scale_linear": 2.0}, "context_length", 1024),
        (
            {"llama.rope.scaling.type": "none", "llama.rope.scaling.factor": 2.0},
            "context_length",
            512,
        ),
        ({"llama.attention.sliding_window": 512}, "context_length", 512),
        ({"tokenizer.ggml.eot_token_id": 0}, "eos_ids", (5, 0, 1, 3)),
        ({"split.count": (g.U16, 1)}, "layers", 2),
    ],
)
def test_optional_metadata_is_followed(
    change: dict[str, object], field: str, found: object, metadata: Read
) -> None:
    assert getattr(metadata({**METADATA, **change}), field) == found


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("general.architecture", "mamba"),
        ("general.quantization_version", 1),
        ("general.type", "adapter"),
        ("split.count", (g.U16, 2)),
        ("llama.expert_count", 8),
        ("llama.attention.causal", False),
        ("llama.attention.head_count_kv", (g.U32, [2, 3])),
        ("llama.attention.value_length", 32),
        ("llama.attention.sliding_window", 511),
        ("llama.final_logit_softcapping", 30.0),
        ("llama.rope.dimension_count", 8),
        ("llama.rope.scaling.type", "yarn"),
        ("llama.rope.scaling.type", "longrope"),
        ("llama.rope.scaling.attn_factor", 1.5),
    ],
)
def test_what_metadata_may_not_ask_for_is_named(key: str, value: object, metadata: Read) -> None:
    refused(metadata, {**METADATA, key: value}, UnsupportedError, f"field {re.escape(key)}: ")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("general.architecture", 1),
        ("llama.block_count", 0),
        ("llama.block_count", 2.0),
        ("llama.attention.head_count_kv", 4),
        ("llama.attention.head_count_kv", (g.U32, [])),
        ("llama.attention.head_count_kv", (g.I32, [-1, -1])),
        ("llama.attention.sliding_window", (g.U32, [1, 2])),
        ("llama.attention.layer_norm_rms_epsilon", float("nan")),
        ("llama.rope.freq_base", float("inf")),
        ("llama.vocab_size", 5),
        ("tokenizer.ggml.bos_token_id", 6),
        ("tokenizer.ggml.eos_token_id", (g.U32, [1, 2])),
    ],
)
def test_a_bad_field_of_metadata_is_named(key: str, value: object, metadata: Read) -> None:
    refused(metadata, {**METADATA, key: value}, FormatError, f"field {re.escape(key)}: ")


@pytest.mark.parametrize(
    "key",
    [
        "general.architecture",
        "llama.context_length",
        "llama.embedding_length",
        "llama.block_count",
        "llama.feed_forward_length",
        "llama.attention.head_count",
        "llama.attention.layer_norm_rms_epsilon",
    ],
)
def test_a_missing_field_of_metadata_is_named(key: str, metadata: Read) -> None:
    refused(metadata, without(METADATA, key), FormatError, f"field {re.escape(key)} is missing")
