"""LLaMA in float64 NumPy, of one sequence, by the published description alone.

Weights are arrays under Hugging Face's names, settings are those of config.json.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import ggml_blocks
import numpy as np

Arrays = Mapping[str, np.ndarray]

GGUF_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def logits(weights: Arrays, settings: Mapping[str, Any], tokens: Sequence[int]) -> np.ndarray:
    """The logits after each token: [n, vocab]."""
    heads = settings["num_attention_heads"]
    kv_heads = settings.get("num_key_value_heads", heads)
    size = settings.get("head_dim") or settings["hidden_size"] // heads
    eps = settings["rms_norm_eps"]
    w = Made(weights, lambda name: weights[name].astype(np.float64, copy=False))
    turns = np.outer(np.arange(len(tokens)), frequencies(settings, size))
    if "rope_freqs.weight" in w:
        turns = turns / w["rope_freqs.weight"]
    unseen = np.triu(np.ones((len(tokens), len(tokens)), bool), 1)
    x = weights["model.embed_tokens.weight"][list(tokens)].astype(np.float64)
    for layer in range(settings["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        h = rms_norm(x, w[f"{at}.input_layernorm.weight"], eps)
        q = rotated(linear(h, w, f"{at}.self_attn.q_proj").reshape(-1, heads, size), turns)
        k = rotated(linear(h, w, f"{at}.self_attn.k_proj").reshape(-1, kv_heads, size), turns)
        v = linear(h, w, f"{at}.self_attn.v_proj").reshape(-1, kv_heads, size)
        k, v = (np.repeat(each, heads // kv_heads, axis=1) for each in (k, v))
        q, k, v = (each.swapaxes(0, 1) for each in (q, k, v))
        scores = q @ k.swapaxes(1, 2) / math.sqrt(size)
        p = softmax(np.where(unseen, -np.inf, scores))
        h = (p @ v).swapaxes(0, 1).reshape(len(tokens), -1)
        x = x + linear(h, w, f"{at}.self_attn.o_proj")
        h = rms_norm(x, w[f"{at}.post_attention_layernorm.weight"], eps)
        gate = linear(h, w, f"{at}.mlp.gate_proj")
        h = gate / (1 + np.exp(-gate)) * linear(h, w, f"{at}.mlp.up_proj")
        x = x + linear(h, w, f"{at}.mlp.down_proj")
    x = rms_norm(x, w["model.norm.weight"], eps)
    tied = "lm_head.weight" not in w
    return x @ w["model.embed_tokens.weight" if tied else "lm_head.weight"].T


def linear(x: np.ndarray, w: Arrays, name: str) -> np.ndarray:
    return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0.0)


def rms_norm(x: np.ndarray, w: np.ndarray, eps: float) -> np.ndarray:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * w


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def frequencies(settings: Mapping[str, Any], size: int) -> np.ndarray:
    """The angle of each pair a position."""
    plain = settings.get("rope_theta", 10_000.0) ** -(np.arange(0, size, 2) / size)
    scaling = settings.get("rope_scaling")
    if scaling is None:
        return plain
    if scaling["rope_type"] == "linear":
        return plain / scaling["factor"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    length, factor = scaling["original_max_position_embeddings"], scaling["factor"]
    found = []
    for turn in plain:
        wavelength = 2 * math.pi / turn
        if wavelength < length / high:
            found.append(turn)
        elif wavelength > length / low:
            found.append(turn / factor)
        else:
            part = (length / wavelength - low) / (high - low)
            found.append((1 - part) * turn / factor + part * turn)
    return np.array(found)


def rotated(x: np.ndarray, turns: np.ndarray) -> np.ndarray:
    """x [n, heads, size] with element i and i + size / 2 turned by the pair's angle."""
    a, b = np.split(x, 2, axis=-1)
    cos, sin = np.cos(turns)[:, None], np.sin(turns)[:, None]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def from_gguf(tensors: Arrays, heads: int, kv_heads: int) -> Arrays:
    """The same weights under Hugging Face's names, q and k rows back in halves."""
    names = {named_by_gguf(name): name for name in tensors}

    def make(name: str) -> np.ndarray:
        array, node = tensors[names[name]], names[name].split(".")[-2]
        if node not in ("attn_q", "attn_k"):
            return array
        count = heads if node == "attn_q" else kv_heads
        pairs = array.reshape(count, -1, 2, *array.shape[1:])
        return pairs.swapaxes(1, 2).reshape(array.shape)

    return Made(names, make)


def named_by_gguf(name: str) -> str:
    *place, node, kind = name.split(".")
    at = f"model.layers.{place[1]}." if place else ""
    return f"{at}{GGUF_NAMES.get(node, node)}.{kind}"


class Made(Mapping[str, np.ndarray]):
    """Arrays that are made anew when they are asked for, so that few are in memory at a time."""

    def __init__(self, names: Mapping[str, object], make: Callable[[str], np.ndarray]) -> None:
        self.names, self.make = names, make

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self.names:
            raise KeyError(name)
        return self.make(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def dequantized(kind: str, raw: np.ndarray) -> np.ndarray:
    """The numbers behind rows of GGML blocks, given as bytes [rows, bytes of a row]."""
    if kind == "bf16":
        return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    if kind in ("f32", "f16"):
        return raw.view({"f32": np.float32, "f16": np.float16}[kind])
    elements, size = ggml_blocks.SIZES[kind]
    found = np.empty((raw.shape[0], raw.shape[1] // size * elements))
    for start in range(0, raw.shape[0], 1024):
        found[start : start + 1024] = ggml_blocks.numbers(kind, raw[start : start + 1024])
    return found
