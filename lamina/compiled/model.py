"""A compiled model: written to a file to carry, and read from it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, NoReturn, cast

import lamina
from lamina.atomic_file import write_whole
from lamina.compiled.config_record import config_from_record, config_to_record
from lamina.compiled.sealed_file import MAGIC, SealedFile, read_sealed, sealed_pieces
from lamina.compiled.source_files import files_of, find_source, source_record
from lamina.errors import FormatError, InputError
from lamina.frontend.model import Model, Weight, Weights
from lamina.plugins import manager
from lamina.targets.artifact_store import artifact_from_bytes, artifact_to_bytes
from lamina.targets.base import Artifact, Executable, Target
from lamina.targets.packed import PackedWeights
from lamina.targets.spec import target_spec
from lamina.writing import writing

SUFFIX: Final = ".lamina"

_CODE, _TOKENIZER = "code", "tokenizer"
_FILE_MODE: Final = 0o666


@dataclass(frozen=True, kw_only=True)
class CompiledModel(Model):
    """A model that is code and has no graph.

    `target` is the one it was compiled for, with its options; `packed` says that `weights` are
    as `artifact` takes them, not as the model's files had them.
    """

    artifact: Artifact
    target: Target
    packed: bool

    def load(self, target: Target, weights: Mapping[str, Any] | None = None) -> Executable:
        """Make the code callable; `weights` take the place of the model's own.

        `InputError` if `target` is not the one it was compiled for, `TargetUnavailable` if this
        machine cannot run it.
        """
        own, asked = target_spec(self.target), target_spec(target)
        if own != asked:
            raise InputError(
                f"{self.source}: was compiled for the target {own}, not {asked}: "
                f"run it with --target {own!r}, or compile the model again"
            )
        if weights is None and self.packed:
            arrays = {name: weight.array for name, weight in self.weights.items()}
            weights = PackedWeights(arrays, lambda name: self.weights[name].release())
        return target.load(self.artifact, self.weights if weights is None else weights)


def is_compiled(path: Path) -> bool:
    """Tell whether a file is a compiled model, by its first bytes or by its name."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC or path.suffix == SUFFIX


def write_compiled(
    path: Path,
    model: Model,
    target: Target,
    compiled: Callable[[], Artifact],
    *,
    with_weights: bool,
) -> None:
    """Write `model` and the code that `compiled` makes of it, all of it or nothing.

    Without weights the file says what files they are in. `InputError`, before anything is
    compiled where that can be told, if it cannot be written, or would take the place of the
    model's own files.
    """
    _check_place(path, model)
    artifact = compiled()
    weights = target.pack(artifact, model.weights) if with_weights else None
    facts = {
        "lamina": lamina.__version__,
        "target": {**_provider(target.name), "options": _options(target)},
        "format": model.format,
        "config": config_to_record(model.config) if model.config else None,
        "packed": isinstance(weights, PackedWeights),
        "source": None if with_weights or not model.weights else source_record(model),
    }
    sections = {_CODE: artifact_to_bytes(artifact)}
    if model.tokenizer:
        sections[_TOKENIZER] = model.tokenizer.to_bytes()
    arrays = [_weight(name, each) for name, each in (weights or {}).items()]
    with writing(path):
        write_whole(path, sealed_pieces(facts, sections, arrays), mode=_FILE_MODE)


def read_compiled(path: Path, weights_of: Callable[[Path], Weights]) -> CompiledModel:
    """Read a compiled model; nothing in it is run.

    `weights_of` reads the weights of a model that was compiled without. `FormatError` for a file
    that is not whole, was changed, or is of another version; `InputError` if the weights or the
    plugin of its target are missing.
    """
    sealed = read_sealed(path)
    try:
        return _model(path, sealed, weights_of)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{path}: the header cannot be read: {error!r}") from None


def _model(path: Path, sealed: SealedFile, weights_of: Callable[[Path], Weights]) -> CompiledModel:
    from lamina.frontend.tokenizer import Tokenizer

    facts, weights = sealed.facts, sealed.arrays
    _check_version(path, "Lamina", facts["lamina"], lamina.__version__)
    target = _target(path, facts["target"])
    artifact = artifact_from_bytes(sealed.sections[_CODE], path)
    tokenizer = sealed.sections.get(_TOKENIZER)
    if facts["source"] is not None:
        weights = weights_of(find_source(path, facts["source"]))

    def no_graph() -> NoReturn:
        raise InputError(f"{path}: is compiled, and has no graph: take the model it was made from")

    return CompiledModel(
        no_graph,
        weights,
        Tokenizer.from_bytes(tokenizer) if tokenizer else None,
        config_from_record(facts["config"]) if facts["config"] else None,
        path,
        "lamina",
        artifact=artifact,
        target=target,
        packed=bool(facts["packed"]),
    )


def _check_place(path: Path, model: Model) -> None:
    if isinstance(model, CompiledModel):
        raise InputError(f"{model.source}: is compiled already")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{path}: cannot be written: there is no such folder")
    if path.is_dir():
        raise InputError(f"{path}: is a folder: expected the name of a file")
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: is a device or a pipe: expected the name of a file")
    taken = [each.path for each in files_of(model)]
    if path.exists() and any(each.exists() and each.samefile(path) for each in taken):
        raise InputError(f"{path}: is a file of the model itself: choose another name")


def _weight(name: str, value: object) -> Weight:
    return value if isinstance(value, Weight) else Weight.of(name, cast("Any", value))


def _provider(name: str) -> dict[str, str]:
    """Return who provides a target: another version of it may load code in another way."""
    owner = manager.offers("register_targets")[name].owner
    return {"name": name, "plugin": owner, "version": manager.version(owner)}


def _options(target: Target) -> dict[str, Any]:
    shaping = (each for each in fields(target) if each.metadata.get("spec", True))
    options = {each.name: getattr(target, each.name) for each in shaping}
    return json.loads(json.dumps(options))


def _target(path: Path, record: Mapping[str, Any]) -> Target:
    kind = manager.target(record["name"])
    here = _provider(kind.name)
    _check_version(path, f"the plugin {here['plugin']}", record["version"], here["version"])
    options = {
        name: tuple(cast("list[Any]", value)) if isinstance(value, list) else value
        for name, value in record["options"].items()
    }
    return kind(**options)


def _check_version(path: Path, of: str, expected: str, here: str) -> None:
    if expected != here:
        raise FormatError(
            f"{path}: was compiled by version {expected} of {of}, this is {here}: "
            "compile the model again"
        )
