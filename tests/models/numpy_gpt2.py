"""GPT-2 in float64 NumPy, of one sequence, by the published description alone.

Weights are arrays under Hugging Face's names without `transformer.`, settings those of
config.json.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy_llama import Made

Arrays = Mapping[str, np.ndarray]

GGUF_NAMES = {
    "token_embd": "wte",
    "position_embd": "wpe",
    "output_norm": "ln_f",
    "output": "lm_head",
    "attn_norm": "ln_1",
    "attn_qkv": "attn.c_attn",
    "attn_output": "attn.c_proj",
    "ffn_norm": "ln_2",
    "ffn_up": "mlp.c_fc",
    "ffn_down": "mlp.c_proj",
}


def logits(weights: Arrays, settings: Mapping[str, Any], tokens: Sequence[int]) -> np.ndarray:
    """The logits after each token: [n, vocab]."""
    heads, eps = settings["n_head"], settings.get("layer_norm_epsilon", 1e-5)
    own = {name.removeprefix("transformer."): name for name in weights}
    w = Made(own, lambda name: weights[own[name]].astype(np.float64))
    n, width = len(tokens), settings["n_embd"]
    unseen = np.triu(np.ones((n, n), bool), 1)
    x = weights[own["wte.weight"]][list(tokens)].astype(np.float64) + w["wpe.weight"][:n]
    for layer in range(settings["n_layer"]):
        h = layer_norm(x, w, f"h.{layer}.ln_1", eps)
        joined = linear(h, w, f"h.{layer}.attn.c_attn").reshape(n, 3, heads, width // heads)
        q, k, v = joined[:, 0], joined[:, 1], joined[:, 2]
        scores = np.einsum("ihd,jhd->hij", q, k) / math.sqrt(width // heads)
        e = np.where(unseen, 0.0, np.exp(scores - scores.max(-1, keepdims=True)))
        h = np.einsum("hij,jhd->ihd", e / e.sum(-1, keepdims=True), v).reshape(n, width)
        x = x + linear(h, w, f"h.{layer}.attn.c_proj")
        h = linear(layer_norm(x, w, f"h.{layer}.ln_2", eps), w, f"h.{layer}.mlp.c_fc")
        x = x + linear(gelu(h), w, f"h.{layer}.mlp.c_proj")
    tied = "lm_head.weight" not in w
    return layer_norm(x, w, "ln_f", eps) @ w["wte.weight" if tied else "lm_head.weight"].T


def linear(x: np.ndarray, w: Arrays, name: str) -> np.ndarray:
    return x @ w[f"{name}.weight"] + w[f"{name}.bias"]


def layer_norm(x: np.ndarray, w: Arrays, name: str, eps: float) -> np.ndarray:
    away = x - x.mean(-1, keepdims=True)
    scaled = away / np.sqrt((away * away).mean(-1, keepdims=True) + eps)
    return scaled * w[f"{name}.weight"] + w[f"{name}.bias"]


def gelu(x: np.ndarray) -> np.ndarray:
    """The tanh form, which GPT-2 was trained with."""
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def from_gguf(tensors: Arrays) -> Arrays:
    """The same weights under Hugging Face's names, those of linears turned to [in, out]."""
    found = {}
    for name, array in tensors.items():
        *place, node, kind = name.split(".")
        at = f"h.{place[1]}." if place else ""
        linear = bool(place) and array.ndim == 2
        found[f"{at}{GGUF_NAMES[node]}.{kind}"] = array.T if linear else array
    return found
