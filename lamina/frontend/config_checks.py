"""What the settings of any transformer must satisfy, whichever file they came from."""

from collections.abc import Mapping

from lamina.errors import FormatError
from lamina.frontend.fields import Fields
from lamina.frontend.model import ModelConfig

Settings = Mapping[str, tuple[object, ...]]
"""Settings that can change the graph, each with the values under which they do not."""


def require_settings(fields: Fields, settings: Settings) -> None:
    """Raise `UnsupportedError` for a setting with a value that would be left out."""
    for key, values in settings.items():
        fields.require(key, values)


def head_dim(fields: Fields, key: str, hidden_size: int, heads: int) -> int:
    """Return the stated elements of a head, or else an equal share of the hidden size."""
    if key not in fields and hidden_size % heads:
        raise FormatError(
            f"{fields.where}: field {key} is missing, and {heads} heads cannot share the hidden "
            f"size {hidden_size} equally"
        )
    return fields.count(key, hidden_size // heads)


def check_attention(fields: Fields, config: ModelConfig, kv_key: str) -> ModelConfig:
    """Return `config`, or raise `FormatError` if its heads do not fit together."""
    if config.heads % config.kv_heads:
        raise fields.fault(kv_key, f"a divisor of the {config.heads} attention heads")
    if config.rope is not None and config.head_dim % 2:
        raise FormatError(
            f"{fields.where}: a head of {config.head_dim} elements cannot turn in pairs"
        )
    return config


def refuse_window(fields: Fields, key: str, context_length: int) -> None:
    """Raise `UnsupportedError` for a sliding window that some sequence would outgrow."""
    window = fields.values.get(key, 0)
    off = window is None or (isinstance(window, int) and window == 0)
    if off or not fields.flag("use_sliding_window", True):
        return
    if fields.count(key) < context_length:
        raise fields.unsupported(key, f"a window of the whole context, {context_length}")
