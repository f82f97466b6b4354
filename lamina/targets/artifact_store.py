"""Artifacts as files, and the folder of those compiled before.

A file is: 8 bytes of magic, the format's version (u32), the length of the rest (u64), the sha256
of everything but itself, a JSON header with its length (u32), and the sections' bytes. It holds
machine code, so one that is not whole, or was changed anywhere, is refused before it is used.
"""

from __future__ import annotations

import json
import os
import struct
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, cast

from lamina.atomic_file import write_whole
from lamina.dialects.dims import parse_dim
from lamina.dialects.text_codes import TEXT
from lamina.errors import FormatError
from lamina.targets.base import Artifact, Binding, Signature

_MAGIC: Final = b"LAMINA\r\n"
_VERSION: Final = 1
_HEAD: Final = struct.Struct("<8sIQ")
_DIGEST: Final = 32
_LENGTH: Final = struct.Struct("<I")


def artifact_to_bytes(artifact: Artifact) -> bytes:
    """Return the contents of an artifact's file."""
    signature = artifact.signature
    header = {
        "target": artifact.target,
        "facts": dict(artifact.facts),
        "inputs": [_fields(binding) for binding in signature.inputs],
        "outputs": [_fields(binding) for binding in signature.outputs],
        "states": [_fields(binding) for binding in signature.states],
        "attributes": dict(signature.attributes),
        **({} if signature.texts is None else {"texts": signature.texts}),
        "sections": [[name, len(data)] for name, data in artifact.sections.items()],
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    body = b"".join((_LENGTH.pack(len(text)), text, *artifact.sections.values()))
    head = _HEAD.pack(_MAGIC, _VERSION, len(body))
    return b"".join((head, sha256(head + body).digest(), body))


def artifact_from_bytes(data: bytes, where: object = "artifact") -> Artifact:
    """Return the artifact in `data`; `FormatError` names `where` if a single bit is not its own."""
    start = _HEAD.size + _DIGEST
    if len(data) < start or not data.startswith(_MAGIC):
        raise FormatError(f"{where}: is no compiled artifact")
    _, version, length = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise FormatError(f"{where}: field version: expected {_VERSION}, got {version}")
    if length != len(data) - start:
        raise FormatError(f"{where}: expected {start + length} bytes, got {len(data)}")
    if sha256(data[: _HEAD.size] + data[start:]).digest() != data[_HEAD.size : start]:
        raise FormatError(f"{where}: the digest does not fit the contents: it was changed")
    try:
        return _artifact(data[start:])
    except (AttributeError, KeyError, TypeError, ValueError, struct.error) as error:
        raise FormatError(f"{where}: the header cannot be read: {error!r}") from None


@dataclass(frozen=True)
class ArtifactCache:
    """Artifacts by key in a folder that is the user's own; processes may share it."""

    folder: Path

    def find(self, key: str) -> Artifact | None:
        """Return what was kept under `key`, None if nothing was or it is not as it was written.

        A bad entry is named in a warning and taken away, never used.
        """
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        try:
            artifact = artifact_from_bytes(data, path)
        except FormatError as error:
            reason = str(error)
        else:
            kept = artifact.facts.get(_KEY)
            if kept == key:
                return artifact
            reason = f"{path}: is the entry of another key"
        warnings.warn(f"{reason}; it is compiled again", stacklevel=2)
        with suppress(OSError):
            path.unlink()
        return None

    def keep(self, key: str, artifact: Artifact) -> None:
        """Keep `artifact` under `key`; where it cannot be written, warn and go on without."""
        path = self._path(key)
        keyed = Artifact(
            artifact.target, artifact.signature, artifact.sections, {**artifact.facts, _KEY: key}
        )
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(path, [artifact_to_bytes(keyed)])
        except OSError as error:
            warnings.warn(f"{path}: cannot be kept: {error.strerror}", stacklevel=2)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.artifact"


def artifact_key(source: bytes, target: str, pipeline: str, features: str = "") -> str:
    """Return the key that finds an artifact without running the compiler.

    `source` is the model's header or graph without weights, `target` and `pipeline` are specs,
    `features` says what the code may use of the machine. Versions, and the state of this
    package's own files, are part of the key.
    """
    return digest_of([source, target.encode(), pipeline.encode(), features.encode(), code_stamp()])


def digest_of(parts: Sequence[bytes]) -> str:
    """Return a hexadecimal digest of byte strings, each told apart from its neighbours."""
    state = sha256()
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.hexdigest()


@cache
def code_stamp() -> bytes:
    """Return what identifies the code that compiles: versions, and the files of this package."""
    from importlib.metadata import PackageNotFoundError, version

    import lamina

    versions = [lamina.__version__]
    for name in ("xdsl", "llvmlite", "numpy"):
        try:
            versions.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            versions.append(name)
    stamps = sorted(_stamps(Path(lamina.__file__).parent))
    return json.dumps([versions, stamps]).encode()


_KEY: Final = "key"


def _stamps(folder: str | Path) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _stamps(entry.path)
            elif entry.name.endswith((".py", ".ll")):
                found = entry.stat()
                yield entry.path, found.st_size, found.st_mtime_ns


def _artifact(body: bytes) -> Artifact:
    (length,) = _LENGTH.unpack_from(body)
    at = _LENGTH.size + length
    header = cast("dict[str, Any]", json.loads(body[_LENGTH.size : at]))
    sections: dict[str, bytes] = {}
    for name, size in header["sections"]:
        if not 0 <= size <= len(body) - at:
            raise ValueError(f"section {name!r} has {size} bytes")
        sections[name] = body[at : at + size]
        at += size
    if at != len(body):
        raise ValueError(f"{len(body) - at} bytes are left over")
    inputs, outputs, states = (
        tuple(_binding(each) for each in header[kind]) for kind in ("inputs", "outputs", "states")
    )
    texts = tuple(map(str, header["texts"])) if "texts" in header else None
    signature = Signature(inputs, outputs, states, header["attributes"], texts)
    return Artifact(header["target"], signature, sections, header["facts"])


def _fields(binding: Binding) -> list[Any]:
    dims = [str(dim) for dim in binding.dims]
    return [binding.name, binding.elements, dims, binding.role, *binding.dropped]


def _binding(fields: Sequence[Any]) -> Binding:
    name, elements, dims, role, *dropped = fields
    text = elements == TEXT
    shape = tuple(parse_dim(dim) for dim in dims)
    return Binding(name, "i64" if text else elements, shape, role, tuple(dropped), text)
