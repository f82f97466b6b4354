"""How the settings of each architecture are read, by the name that files give it."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from lamina.frontend import config_gguf, config_json
from lamina.frontend.fields import Fields
from lamina.frontend.model import ModelConfig


@dataclass(frozen=True)
class SettingsReader:
    """Reads the settings of one architecture; None where it does not come in that kind of file.

    `folder` takes the fields of a config.json, whose `architectures` may name one of `classes`;
    `gguf` takes a GGUF file's metadata and the names of its tensors. Both raise
    `UnsupportedError` for a setting that would change the graph and is not implemented, and
    `FormatError` for a bad field.
    """

    folder: Callable[[Fields], ModelConfig] | None = None
    classes: tuple[str, ...] = ()
    gguf: Callable[[Fields, Collection[str]], ModelConfig] | None = None


SettingsReaders = Mapping[str, SettingsReader]
"""Readers by `model_type`, which GGUF files call `general.architecture`."""

SETTINGS: dict[str, SettingsReader] = {
    "bert": SettingsReader(config_json.bert_config, ("BertModel",)),
    "gpt2": SettingsReader(
        config_json.gpt2_config, ("GPT2LMHeadModel", "GPT2Model"), config_gguf.gpt2_config
    ),
    "llama": SettingsReader(
        config_json.llama_config, ("LlamaForCausalLM",), config_gguf.llama_config
    ),
}
"""The readers of the box."""
