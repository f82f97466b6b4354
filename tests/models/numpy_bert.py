"""BERT's encoder in float64 NumPy, of a padded batch, by the published description alone.

Weights are arrays under Hugging Face's names without `bert.`, settings those of config.json.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray]

erf = np.vectorize(math.erf)


def last_hidden_state(
    weights: Arrays,
    settings: Mapping[str, Any],
    ids: np.ndarray,
    mask: np.ndarray,
    segments: np.ndarray,
) -> np.ndarray:
    """The vectors of all tokens, ids and the rest [batch, n]: [batch, n, hidden]."""
    heads, eps = settings["num_attention_heads"], settings.get("layer_norm_eps", 1e-12)
    w = {name.removeprefix("bert."): array.astype(np.float64) for name, array in weights.items()}
    x = w["embeddings.word_embeddings.weight"][ids]
    x = x + w["embeddings.position_embeddings.weight"][: ids.shape[1]]
    x = x + w["embeddings.token_type_embeddings.weight"][segments]
    x = layer_norm(x, w, "embeddings.LayerNorm", eps)
    for layer in range(settings["num_hidden_layers"]):
        at = f"encoder.layer.{layer}"
        q, k, v = (
            linear(x, w, f"{at}.attention.self.{part}").reshape(*ids.shape, heads, -1)
            for part in ("query", "key", "value")
        )
        scores = np.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(q.shape[-1])
        scores = np.where(mask[:, None, None] != 0, scores, -np.inf)
        e = np.exp(scores - scores.max(-1, keepdims=True))
        h = np.einsum("bhij,bjhd->bihd", e / e.sum(-1, keepdims=True), v).reshape(x.shape)
        h = linear(h, w, f"{at}.attention.output.dense")
        x = layer_norm(x + h, w, f"{at}.attention.output.LayerNorm", eps)
        h = linear(x, w, f"{at}.intermediate.dense")
        h = linear(h * (1 + erf(h / math.sqrt(2))) / 2, w, f"{at}.output.dense")
        x = layer_norm(x + h, w, f"{at}.output.LayerNorm", eps)
    return x


def mean_embedding(x: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The mean of the vectors that the mask shows, of length 1: [batch, hidden]."""
    mean = (x * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
    return mean / np.sqrt((mean * mean).sum(-1, keepdims=True))


def linear(x: np.ndarray, w: Arrays, name: str) -> np.ndarray:
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def layer_norm(x: np.ndarray, w: Arrays, name: str, eps: float) -> np.ndarray:
    away = x - x.mean(-1, keepdims=True)
    scaled = away / np.sqrt((away * away).mean(-1, keepdims=True) + eps)
    return scaled * w[f"{name}.weight"] + w[f"{name}.bias"]
