"""A Hugging Face folder: its settings, its weights, and the files of its tokenizer."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lamina.errors import FormatError, InputError, UnsupportedError
from lamina.frontend.config import config_from_folder
from lamina.frontend.model import ModelConfig, Weights
from lamina.frontend.safetensors import read_safetensors, read_safetensors_index
from lamina.frontend.settings import SETTINGS, SettingsReaders

_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
_TOKENIZER_FILES = (
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "tokenizer.model",
)


@dataclass(frozen=True)
class ModelFolder:
    """What a folder holds; `tokenizer_files` maps the names that are present to their paths."""

    path: Path
    config: ModelConfig
    weights: Weights
    tokenizer_files: Mapping[str, Path]


def open_folder(path: str | os.PathLike[str], readers: SettingsReaders = SETTINGS) -> ModelFolder:
    """Read the settings of a folder and map its weights.

    Raises `InputError` if `path` is no folder, `UnsupportedError` if the weights are pickled or
    the model is not one that Lamina imports, `FormatError` for anything missing or broken.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise InputError(f"{folder}: expected a folder with config.json and safetensors")
    config = config_from_folder(folder, readers)
    files = {name: folder / name for name in _TOKENIZER_FILES if (folder / name).is_file()}
    return ModelFolder(folder, config, _read_weights(folder), files)


def _read_weights(folder: Path) -> Weights:
    if os.path.lexists(folder / _SINGLE):
        return read_safetensors(folder / _SINGLE).tensors
    if os.path.lexists(folder / _INDEX):
        return read_safetensors_index(folder / _INDEX)
    for name in _PICKLES:
        if (folder / name).exists():
            raise UnsupportedError(
                f"{folder / name}: pickled weights can run code and are not read: "
                f"save the model as {_SINGLE}"
            )
    raise FormatError(f"{folder}: the folder has neither {_SINGLE} nor {_INDEX}")
