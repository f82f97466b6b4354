"""Rotary position embedding as a model file describes it: base, pairs and scaling."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from lamina.frontend.fields import Fields

Pairs = Literal["adjacent", "half_split"]
"""Which two elements turn together: `(2i, 2i+1)`, or `(i, i + dims/2)`."""


@dataclass(frozen=True)
class LinearScaling:
    """Positions are divided by `factor` (Chen et al. 2023, position interpolation).

    `original_context` is the length before scaling, if the file tells it.
    """

    factor: float
    original_context: int | None = None

    def apply(self, frequencies: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the scaled angles a position, float64 of the same shape."""
        return frequencies / self.factor


@dataclass(frozen=True)
class Llama3Scaling:
    """Slow pairs are divided by `factor`, fast ones are kept, those between are blended.

    A pair is slow if its wavelength is over `original_context / low_freq_factor` positions, fast
    if it is under `original_context / high_freq_factor` (Llama 3.1 model code).
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_context: int

    def apply(self, frequencies: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the scaled angles a position, float64 of the same shape."""
        turns = self.original_context * frequencies / (2 * math.pi)
        kept = (turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor)
        kept = np.clip(kept, 0.0, 1.0)
        return (1 - kept) * frequencies / self.factor + kept * frequencies


@dataclass(frozen=True)
class Rope:
    """Rotary embedding of the first `dims` elements of each head.

    `theta` is the base; `pairs` says which elements the stored q and k weights expect to turn
    together; `scaling` is None for positions as they are.
    """

    theta: float
    dims: int
    pairs: Pairs
    scaling: LinearScaling | Llama3Scaling | None = None

    def inverse_frequencies(self) -> npt.NDArray[np.float64]:
        """Return the angle that each pair turns per position, float64 `[dims / 2]`, scaled."""
        plain = self.theta ** -(np.arange(0, self.dims, 2, dtype=np.float64) / self.dims)
        return plain if self.scaling is None else self.scaling.apply(plain)

    def scaled_context(self, context: int) -> int:
        """Return the longest sequence in tokens, where the file states `context`.

        With linear scaling that is the length before it, unless the file tells that one too. With
        llama3 scaling a file states the length after it.
        """
        if not isinstance(self.scaling, LinearScaling):
            return context
        original = self.scaling.original_context
        stretched = int((original or context) * self.scaling.factor)
        return max(stretched, context)


_ORIGINAL = "original_max_position_embeddings"


def _original(fields: Fields, key: str) -> int | None:
    return fields.count(key) if key in fields else None


def _scaling_from_json(fields: Fields) -> LinearScaling | Llama3Scaling | None:
    key = "rope_type" if "rope_type" in fields else "type"
    plain = fields.values.keys() <= {"rope_theta", "partial_rotary_factor"}
    kind = fields.text(key, "default" if plain else None)
    if fields.text("type", kind) != kind:
        raise fields.fault("type", f"the same as rope_type, {kind}")
    if kind == "default":
        return None
    if kind == "linear":
        return LinearScaling(fields.number("factor"), _original(fields, _ORIGINAL))
    if kind == "llama3":
        low, high = fields.number("low_freq_factor"), fields.number("high_freq_factor")
        if high <= low:
            raise fields.fault("high_freq_factor", f"a number above low_freq_factor {low}")
        return Llama3Scaling(fields.number("factor"), low, high, fields.count(_ORIGINAL))
    raise fields.unsupported(key, "'default', 'linear' and 'llama3'")


def rope_from_json(config: Fields, head_dim: int) -> Rope:
    """Return the rope of a Hugging Face config.json, in either of its two spellings.

    `rope_parameters` is the spelling of transformers 5, `rope_theta` with `rope_scaling` the
    older one. Raises `UnsupportedError` for an unknown rope type, `FormatError` for a bad field.
    """
    found: list[LinearScaling | Llama3Scaling | None] = []
    theta = config.number("rope_theta", 10_000.0)
    for key in ("rope_parameters", "rope_scaling"):
        if (fields := config.table(key)) is None:
            continue
        if any(isinstance(value, dict) for value in fields.values.values()):
            raise config.unsupported(key, "one set of parameters for all layers")
        fields.require("partial_rotary_factor", (1.0,))
        theta = fields.number("rope_theta", theta)
        if config.number("rope_theta", theta) != theta:
            raise config.fault("rope_theta", f"the same as in {key}, {theta}")
        found.append(_scaling_from_json(fields))
    if len(set(found)) > 1:
        raise config.fault("rope_scaling", "the same scaling as in rope_parameters")
    config.require("partial_rotary_factor", (1.0,))
    return Rope(theta, head_dim, "half_split", found[0] if found else None)


def rope_from_gguf(fields: Fields, architecture: str, head_dim: int, pairs: Pairs) -> Rope:
    """Return the rope that GGUF metadata describes for `architecture`.

    A llama3 scaling is not metadata but the tensor `rope_freqs.weight`, a divisor for each pair.
    Raises `UnsupportedError` for an unknown scaling or for rotating part of a head.
    """
    prefix = f"{architecture}.rope"
    if fields.count(f"{prefix}.dimension_count", head_dim) != head_dim:
        raise fields.unsupported(f"{prefix}.dimension_count", f"the whole head of {head_dim}")
    theta = fields.number(f"{prefix}.freq_base", 10_000.0)
    kind = fields.text(f"{prefix}.scaling.type", "")
    old = f"{prefix}.scale_linear"
    factor = f"{prefix}.scaling.factor"
    if kind not in ("", "none", "linear"):
        raise fields.unsupported(f"{prefix}.scaling.type", "'none' and 'linear'")
    fields.require(f"{prefix}.scaling.attn_factor", (1.0,))
    scale = 1.0
    if kind == "linear":
        scale = fields.number(factor)
    elif kind == "":
        scale = fields.number(factor, fields.number(old, 1.0))
    original = _original(fields, f"{prefix}.scaling.original_context_length")
    scaling = None if scale == 1.0 else LinearScaling(scale, original)
    return Rope(theta, head_dim, pairs, scaling)
