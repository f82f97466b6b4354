"""The readers of model files: a GGUF file, or a Hugging Face folder, to a `Model`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from lamina.errors import UnsupportedError
from lamina.frontend.config import config_from_gguf
from lamina.frontend.folder import open_folder
from lamina.frontend.folder_tokenizer import tokenizer_from_folder
from lamina.frontend.gguf import read_gguf
from lamina.frontend.gguf_tokenizer import tokenizer_from_gguf
from lamina.frontend.model import Model, ModelConfig, Weights
from lamina.frontend.settings import SettingsReaders

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

Converter = Callable[[ModelConfig, Weights], "ModuleOp"]
"""What turns the settings and weights of one architecture into a module."""

Converters = Mapping[str, Callable[[], Converter]]
"""Factories of converters by architecture."""


@dataclass(frozen=True)
class GgufFrontend:
    """Reads GGUF files of the architectures whose `settings` and `converters` it is given."""

    name: ClassVar[str] = "gguf"

    converters: Converters = field(repr=False)
    settings: SettingsReaders = field(repr=False)

    def sniff(self, path: Path) -> bool:
        """Return whether `path` is a GGUF file, by its first bytes or by its name."""
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(4) == b"GGUF" or path.suffix.lower() == ".gguf"

    def read(self, path: Path) -> Model:
        """Return the model in `path`, its weights mapped.

        Raises `FormatError` or `UnsupportedError` naming the file, and the place or field.
        """
        found = read_gguf(path)
        config = config_from_gguf(found.metadata, found.tensors, path, self.settings)
        graph = _graph(self.converters, config, found.tensors)
        tokenizer = None
        if "tokenizer.ggml.model" in found.metadata:
            tokenizer = tokenizer_from_gguf(found.metadata, path)
        return Model(graph, found.tensors, tokenizer, config)


@dataclass(frozen=True)
class HuggingFaceFrontend:
    """Reads folders of config.json and safetensors; its fields are those of `GgufFrontend`."""

    name: ClassVar[str] = "huggingface"

    converters: Converters = field(repr=False)
    settings: SettingsReaders = field(repr=False)

    def sniff(self, path: Path) -> bool:
        """Return whether `path` is a folder that holds settings or weights."""
        names = ("config.json", "*.safetensors", "pytorch_model*.bin")
        return path.is_dir() and any(any(path.glob(name)) for name in names)

    def read(self, path: Path) -> Model:
        """Return the model in the folder `path`, its weights mapped.

        Raises `FormatError` or `UnsupportedError` naming the file, and the place or field.
        """
        found = open_folder(path, self.settings)
        graph = _graph(self.converters, found.config, found.weights)
        tokenizer = None
        if "tokenizer.json" in found.tokenizer_files:
            tokenizer = tokenizer_from_folder(path)
        return Model(graph, found.weights, tokenizer, found.config)


def _graph(
    converters: Converters, config: ModelConfig, weights: Weights
) -> "Callable[[], ModuleOp]":
    if config.architecture not in converters:
        raise UnsupportedError(
            f"{weights.where}: there is no converter for the architecture "
            f"{config.architecture}, only for {', '.join(sorted(converters))}"
        )
    return lambda: converters[config.architecture]()(config, weights)
