"""The settings that GGUF metadata states, by architecture."""

from collections.abc import Collection, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from lamina.frontend.config_checks import (
    Settings,
    check_attention,
    head_dim,
    refuse_window,
    require_settings,
)
from lamina.frontend.fields import Fields
from lamina.frontend.gguf_values import StringArray
from lamina.frontend.model import ModelConfig
from lamina.frontend.rope import rope_from_gguf

_CONTROL = 3
_END_SPELLINGS = {"<|endoftext|>", "<|im_end|>", "<|eot_id|>", "<|end|>", "<end_of_turn>"}
_END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")

_LLAMA_SETTINGS: Settings = {
    "llama.attention.causal": (True,),
    "llama.attention.clamp_kqv": (0.0,),
    "llama.attention.max_alibi_bias": (0.0,),
    "llama.attention.scale": (0.0,),
    "llama.attn_logit_softcapping": (0.0,),
    "llama.embedding_scale": (0.0, 1.0),
    "llama.expert_count": (0,),
    "llama.final_logit_softcapping": (0.0,),
    "llama.logit_scale": (0.0, 1.0),
    "llama.residual_scale": (0.0, 1.0),
    "llama.use_parallel_residual": (False,),
}


_GPT2_SETTINGS: Settings = {
    "gpt2.attention.causal": (True,),
    "gpt2.attention.clamp_kqv": (0.0,),
    "gpt2.attention.max_alibi_bias": (0.0,),
    "gpt2.attention.scale": (0.0,),
    "gpt2.expert_count": (0,),
    "gpt2.use_parallel_residual": (False,),
}


def _uniform_count(fields: Fields, key: str, default: int | None = None) -> int:
    """Return a number that may be given once, or once for each layer if all are equal."""
    value = fields.values.get(key)
    if not isinstance(value, np.ndarray):
        return fields.count(key, default)
    distinct = set(cast("npt.NDArray[Any]", value).tolist())
    if len(distinct) > 1:
        raise fields.unsupported(key, "one value for all layers")
    if not distinct:
        raise fields.fault(key, "a value for each layer")
    return Fields({key: distinct.pop()}, fields.where).count(key)


def _vocab_size(fields: Fields, architecture: str) -> int:
    key = f"{architecture}.vocab_size"
    tokens = fields.values.get("tokenizer.ggml.tokens")
    listed = len(tokens) if isinstance(tokens, StringArray) else 0
    size = fields.count(key, listed)
    if size < listed:
        raise fields.fault(key, f"at least the {listed} tokens of the vocabulary")
    return size


def llama_config(fields: Fields, tensors: Collection[str]) -> ModelConfig:
    """Return the settings of architecture llama, whose q and k rows turn adjacent pairs."""
    require_settings(fields, _LLAMA_SETTINGS)
    hidden = fields.count("llama.embedding_length")
    heads = _uniform_count(fields, "llama.attention.head_count")
    size = head_dim(fields, "llama.attention.key_length", hidden, heads)
    if fields.count("llama.attention.value_length", size) != size:
        raise fields.unsupported("llama.attention.value_length", f"the length of keys, {size}")
    rope = rope_from_gguf(fields, "llama", size, "adjacent")
    context = rope.scaled_context(fields.count("llama.context_length"))
    refuse_window(fields, "llama.attention.sliding_window", context)
    found = ModelConfig(
        architecture="llama",
        vocab_size=_vocab_size(fields, "llama"),
        context_length=context,
        hidden_size=hidden,
        intermediate_size=_uniform_count(fields, "llama.feed_forward_length"),
        layers=fields.count("llama.block_count"),
        heads=heads,
        kv_heads=_uniform_count(fields, "llama.attention.head_count_kv", heads),
        head_dim=size,
        norm_eps=fields.number("llama.attention.layer_norm_rms_epsilon"),
        activation="silu",
        rope=rope,
        tied_embeddings="output.weight" not in tensors,
        attention_bias="blk.0.attn_q.bias" in tensors,
        mlp_bias="blk.0.ffn_up.bias" in tensors,
    )
    return check_attention(fields, found, "llama.attention.head_count_kv")


def gpt2_config(fields: Fields, tensors: Collection[str]) -> ModelConfig:
    """Return the settings of architecture gpt2: learned positions, biases on every linear."""
    require_settings(fields, _GPT2_SETTINGS)
    hidden = fields.count("gpt2.embedding_length")
    heads = _uniform_count(fields, "gpt2.attention.head_count")
    if _uniform_count(fields, "gpt2.attention.head_count_kv", heads) != heads:
        raise fields.unsupported("gpt2.attention.head_count_kv", f"all {heads} heads")
    return ModelConfig(
        architecture="gpt2",
        vocab_size=_vocab_size(fields, "gpt2"),
        context_length=fields.count("gpt2.context_length"),
        hidden_size=hidden,
        intermediate_size=_uniform_count(fields, "gpt2.feed_forward_length", 4 * hidden),
        layers=fields.count("gpt2.block_count"),
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim(fields, "gpt2.attention.key_length", hidden, heads),
        norm_eps=fields.number("gpt2.attention.layer_norm_epsilon"),
        activation="gelu_tanh",
        tied_embeddings="output.weight" not in tensors,
        attention_bias=True,
        mlp_bias=True,
    )


def end_ids(fields: Fields, vocab_size: int) -> tuple[int, ...]:
    """Return every token id that ends a sequence: those named, and control tokens so spelled."""
    found: list[int] = []
    for key in _END_KEYS:
        found += fields.token_ids(f"tokenizer.ggml.{key}", vocab_size)
    tokens = fields.values.get("tokenizer.ggml.tokens")
    types = fields.values.get("tokenizer.ggml.token_type")
    if isinstance(tokens, Sequence) and isinstance(types, np.ndarray):
        named = cast(Sequence[object], tokens)
        control = np.flatnonzero(types[: len(named)] == _CONTROL).tolist()
        found += [index for index in control if named[index] in _END_SPELLINGS]
    return tuple(dict.fromkeys(found))
