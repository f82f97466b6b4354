"""The settings of a transformer, from GGUF metadata or from a Hugging Face folder."""

import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from lamina.errors import FormatError, UnsupportedError
from lamina.frontend.config_checks import Settings, require_settings
from lamina.frontend.config_gguf import end_ids
from lamina.frontend.fields import Fields
from lamina.frontend.model import ModelConfig
from lamina.frontend.pooling import pooling_from_folder
from lamina.frontend.settings import SETTINGS, SettingsReaders
from lamina.frontend.shown import shown
from lamina.frontend.strict_json import read_json_object

_GGUF_SETTINGS: Settings = {
    "general.quantization_version": (2,),
    "general.type": ("model",),
    "split.count": (0, 1),
}
_QUANTIZATIONS = ("quantization_config", "compression_config")
_QUANTIZATION_FILES = ("quantize_config.json", "quant_config.json")


def config_from_gguf(
    metadata: Mapping[str, object],
    tensors: Collection[str] = (),
    path: str | os.PathLike[str] = "GGUF metadata",
    readers: SettingsReaders = SETTINGS,
) -> ModelConfig:
    """Return the settings of a GGUF file, by the reader of its architecture.

    `tensors` are the names of the file's tensors, which tell whether the embedding is tied and
    which linears have biases. Raises `UnsupportedError` for an architecture or a setting that is
    not implemented and `FormatError` for a bad field, each naming `path` and the field.
    """
    fields = Fields(metadata, os.fspath(path))
    require_settings(fields, _GGUF_SETTINGS)
    known = {name: each.gguf for name, each in readers.items() if each.gguf}
    architecture = fields.text("general.architecture")
    if architecture not in known:
        raise fields.unsupported("general.architecture", ", ".join(known))
    config = known[architecture](fields, tensors)
    return replace(
        config,
        bos_id=next(iter(fields.token_ids("tokenizer.ggml.bos_token_id", config.vocab_size)), None),
        eos_ids=end_ids(fields, config.vocab_size),
        metadata=metadata,
    )


def config_from_folder(
    path: str | os.PathLike[str], readers: SettingsReaders = SETTINGS
) -> ModelConfig:
    """Return the settings of a Hugging Face folder: config.json and what stands beside it.

    The ids of generation_config.json and of config.json all end a sequence. Raises
    `UnsupportedError` for a model type, a setting, remote code or a quantisation that is not
    implemented and `FormatError` for a bad field, each naming file and field.
    """
    folder = Path(path)
    if not (folder / "config.json").exists():
        raise FormatError(f"{folder}: the folder has no config.json")
    values = read_json_object(folder / "config.json")
    fields = Fields(values, folder / "config.json")
    _refuse_foreign(folder, fields)
    known = {name: each.folder for name, each in readers.items() if each.folder}
    kind = fields.text("model_type")
    if kind not in known:
        raise fields.unsupported("model_type", ", ".join(known))
    _check_architecture(fields, readers[kind].classes)
    config = known[kind](fields)
    sources = [fields]
    if (folder / "generation_config.json").exists():
        generation = folder / "generation_config.json"
        sources.insert(0, Fields(read_json_object(generation), generation))
    vocab = config.vocab_size
    bos = [one for source in sources for one in source.token_ids("bos_token_id", vocab)]
    eos = [one for source in sources for one in source.token_ids("eos_token_id", vocab)]
    return replace(
        config,
        bos_id=bos[0] if bos else None,
        eos_ids=tuple(dict.fromkeys(eos)),
        pooling=pooling_from_folder(folder),
        metadata=MappingProxyType(values),
    )


def _refuse_foreign(folder: Path, fields: Fields) -> None:
    if "auto_map" in fields:
        raise UnsupportedError(
            f"{fields.where}: field auto_map: the model asks to run code of its own, "
            f"{shown(fields.values['auto_map'])}, and no model's code is ever run"
        )
    for key in _QUANTIZATIONS:
        if (quantization := fields.table(key)) is not None:
            raise quantization.unsupported("quant_method", "weights that are not quantised")
    for name in _QUANTIZATION_FILES:
        if (folder / name).exists():
            raise UnsupportedError(f"{folder / name}: quantised weights of a folder are not read")
    fields.require("is_encoder_decoder", (False,))


def _check_architecture(fields: Fields, supported: tuple[str, ...]) -> None:
    names = fields.values.get("architectures")
    if names is None:
        return
    if not isinstance(names, list):
        raise fields.fault("architectures", "a list of names")
    if names and names[0] not in supported:
        raise fields.unsupported("architectures", ", ".join(supported))
