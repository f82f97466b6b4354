"""The files that a compiled model without weights needs: which they were, and where they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import file_digest
from pathlib import Path
from typing import Any

from lamina.errors import FormatError, InputError
from lamina.frontend.fetch import SOURCES, fetched_path
from lamina.frontend.mapped_file import MappedFile
from lamina.frontend.members import member
from lamina.frontend.model import Model


def source_record(model: Model) -> dict[str, Any]:
    """Return the name of a model and the name, size and sha256 of each file of its weights.

    `InputError` if its weights are not all in files beside each other.
    """
    sources = files_of(model)
    if model.source is None or not sources or any(w.source is None for w in model.weights.values()):
        raise InputError("the weights are in no file: they have to be in the compiled model")
    folder = model.source if model.source.is_dir() else model.source.parent
    if any(each.path.parent != folder for each in sources):
        raise InputError(f"{model.source}: the weights are in several folders")
    files = [{"name": e.path.name, "size": e.size, "sha256": _sha256(e.path)} for e in sources]
    return {"model": model.source.absolute().name, "files": files}


def files_of(model: Model) -> list[MappedFile]:
    """Return the files that the weights of a model are in."""
    sources = {id(w.source): w.source for w in model.weights.values() if w.source}
    return list(sources.values())


def find_source(where: Path, record: Mapping[str, Any]) -> Path:
    """Return the model that `record` is of, beside the file `where` or among the fetched ones.

    `InputError` if there is none, `FormatError` if it is another one by size or hash.
    """
    names = [each["name"] for each in record["files"]]
    for place in _places(where, record["model"]):
        folder = place if place.is_dir() else place.parent
        if place.exists() and all(member(folder, n, f"{where}").is_file() for n in names):
            _check(where, folder, record["files"])
            return place
    listed = ", ".join(f"{each['name']} ({each['size']} bytes)" for each in record["files"])
    raise InputError(
        f"{where}: was compiled without weights: put {listed} of the model "
        f"{record['model']} beside it"
    )


def _places(where: Path, name: str) -> Iterator[Path]:
    folder = where.absolute().parent
    yield member(folder, name, f"{where}")
    yield folder
    for known in SOURCES:
        path = fetched_path(known)
        if path.name == name:
            yield path


def _check(where: Path, folder: Path, files: Iterable[Mapping[str, Any]]) -> None:
    for each in files:
        path = folder / each["name"]
        if path.stat().st_size != each["size"] or _sha256(path) != each["sha256"]:
            raise FormatError(
                f"{path}: is not the file that {where} was compiled from, "
                f"of {each['size']} bytes with the sha256 {each['sha256']}"
            )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
