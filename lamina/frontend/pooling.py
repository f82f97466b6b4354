"""How a sentence encoder's folder says to turn token vectors into one."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lamina.errors import UnsupportedError
from lamina.frontend.fields import Fields
from lamina.frontend.members import member
from lamina.frontend.strict_json import read_json_object, read_json_objects

_PIPELINE = ["Transformer", "Pooling", "Normalize"]
_MODE_FLAGS = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
}


@dataclass(frozen=True)
class Pooling:
    """One vector for a sequence: the mean of its tokens' or the first one's.

    `normalize` divides it by its Euclidean length.
    """

    mode: Literal["mean", "cls"]
    normalize: bool


def pooling_from_folder(folder: Path) -> Pooling | None:
    """Return what `modules.json` in `folder` asks for, or None if there is no such file.

    Raises `UnsupportedError` for a module or a mode that is not implemented, `FormatError` for a
    bad field or a path that leaves the folder. Source: the files of sentence-transformers.
    """
    path = folder / "modules.json"
    if not path.exists():
        return None
    modules = [
        Fields(values, f"{path}: module {index}")
        for index, values in enumerate(read_json_objects(path))
    ]
    kinds = [module.text("type").rpartition(".")[2] for module in modules]
    if not kinds or kinds != _PIPELINE[: len(kinds)] or modules[0].text("path", ""):
        raise UnsupportedError(
            f"{path}: the modules {', '.join(kinds) or 'none'} are not supported, only a "
            "Transformer in the folder itself, then Pooling, then Normalize"
        )
    if len(modules) == 1:
        return None
    pooling = member(folder, modules[1].text("path"), modules[1].where)
    return Pooling(_pooling_mode(pooling / "config.json"), "Normalize" in kinds)


def _pooling_mode(path: Path) -> Literal["mean", "cls"]:
    config = Fields(read_json_object(path), path)
    modes = {key for key in config.values if key.startswith("pooling_mode_") and config.flag(key)}
    if "pooling_mode" in config:
        modes.add(config.text("pooling_mode"))
    match [_MODE_FLAGS.get(mode, mode) for mode in modes]:
        case ["mean"]:
            return "mean"
        case ["cls"]:
            return "cls"
        case other:
            named = ", ".join(sorted(other)) or "none"
            raise UnsupportedError(f"{path}: pooling mode {named}: only mean or cls is supported")
