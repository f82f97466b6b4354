"""The file of a compiled model: a header, sections, and arrays that are mapped where they lie.

A file is: 8 bytes of magic, the format's version (u32), the size of the header (u32) and of the
file (u64), the sha256 of all that and the header, the header (JSON), zeros up to a page, and the
body. The body has the sections, then the arrays, each 64-byte aligned; the header has the sha256
of every `_BLOCK` bytes of it. So no bit can be changed without being found, and several threads
find it.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from math import prod
from pathlib import Path
from typing import Any, Final, cast

from lamina.errors import FormatError
from lamina.frontend.mapped_file import MappedFile
from lamina.frontend.model import PLAIN_DTYPES, Weight, Weights

MAGIC: Final = b"LAMODEL\n"

_VERSION: Final = 1
_HEAD: Final = struct.Struct("<8sIIQ32s")
_DIGEST: Final = 32
_PAGE: Final = 4096
_ALIGNMENT: Final = 64
_BLOCK: Final = 4 << 20
_MOST_THREADS: Final = 8

Piece = bytes | memoryview


@dataclass(frozen=True)
class SealedFile:
    """What is in a file: facts ready for JSON, sections by name, and arrays."""

    facts: Mapping[str, Any]
    sections: Mapping[str, bytes]
    arrays: Weights


def sealed_pieces(
    facts: Mapping[str, Any], sections: Mapping[str, bytes], arrays: Sequence[Weight]
) -> Iterator[Piece]:
    """Yield the bytes of a file piece by piece; the arrays are not copied."""
    body = [*_aligned(chain(sections.values(), map(_raw, arrays)))]
    header = {
        "facts": facts,
        "sections": [[name, len(data)] for name, data in sections.items()],
        "arrays": [[each.name, each.dtype, each.shape, list(each.array.shape)] for each in arrays],
        "digests": [digest.hex() for digest in _digests(body)],
    }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(_HEAD.size + len(text)) % _PAGE)
    size = _HEAD.size + len(text) + sum(len(piece) for piece in body)
    head = _HEAD.pack(MAGIC, _VERSION, len(text), size, bytes(_DIGEST))[:-_DIGEST]
    yield from (head, sha256(head + text).digest(), text)
    yield from body


def read_sealed(path: Path) -> SealedFile:
    """Check all of a file and map its arrays.

    `FormatError` if one bit is not as it was written; `InputError` if it cannot be opened.
    """
    source = MappedFile(path)
    header, start = _header(source)
    with memoryview(source.data) as data:
        _check_body(path, data[start:], header)
    try:
        found = _contents(source, header, start)
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{path}: the header cannot be read: {error!r}") from None
    source.verify_unchanged()
    return found


def _header(source: MappedFile) -> tuple[dict[str, Any], int]:
    path, data = source.path, source.data
    if not data[:8] == MAGIC or source.size < _HEAD.size:
        raise FormatError(f"{path}: is no compiled model")
    _, version, length, size, digest = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise FormatError(
            f"{path}: field version: expected {_VERSION}, got {version}: compile the model again"
        )
    start = _HEAD.size + length
    if size != source.size or start > size:
        raise FormatError(f"{path}: expected {size} bytes, got {source.size}: it is not whole")
    if sha256(data[: _HEAD.size - _DIGEST] + data[_HEAD.size : start]).digest() != digest:
        raise FormatError(f"{path}: the digest does not fit the header: it was changed")
    try:
        header: object = json.loads(data[_HEAD.size : start])
    except (ValueError, RecursionError):
        raise FormatError(f"{path}: the header is not JSON") from None
    if not isinstance(header, dict):
        raise FormatError(f"{path}: the header is no object")
    return cast("dict[str, Any]", header), start


def _check_body(path: Path, body: memoryview, header: Mapping[str, Any]) -> None:
    def digest(at: int) -> str:
        return sha256(body[at : at + _BLOCK]).hexdigest()

    starts = range(0, len(body), _BLOCK)
    if len(starts) > 1:
        with ThreadPoolExecutor(min(os.cpu_count() or 1, _MOST_THREADS)) as pool:
            found = list(pool.map(digest, starts))
    else:
        found = [digest(at) for at in starts]
    body.release()
    if found != header.get("digests"):
        raise FormatError(f"{path}: the digest does not fit the contents: it was changed")


def _contents(source: MappedFile, header: Mapping[str, Any], start: int) -> SealedFile:
    sections: dict[str, bytes] = {}
    at = start
    for name, size in header["sections"]:
        if not 0 <= size <= source.size - at:
            raise ValueError(f"the section {name!r} is not in the file")
        sections[name] = source.data[at : at + size]
        at += _padded(size)
    arrays: list[Weight] = []
    for name, dtype, shape, stored in header["arrays"]:
        kind = PLAIN_DTYPES.get(dtype, PLAIN_DTYPES["u8"])
        if at + kind.itemsize * prod(stored) > source.size or min(stored, default=0) < 0:
            raise ValueError(f"the array {name!r} is not in the file")
        array = source.view(at, kind, tuple(stored))
        arrays.append(Weight(name, dtype, tuple(shape), array, source, at))
        at += _padded(array.nbytes)
    return SealedFile(header["facts"], sections, Weights(arrays, source.path))


def _aligned(pieces: Iterable[Piece]) -> Iterator[Piece]:
    for piece in pieces:
        yield piece
        yield bytes(_padded(len(piece)) - len(piece))


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _raw(weight: Weight) -> memoryview:
    return weight.array.reshape(-1).view(PLAIN_DTYPES["u8"]).data


def _digests(pieces: Iterable[Piece]) -> Iterator[bytes]:
    """Yield the sha256 of every block of the pieces in a row."""
    state, room = sha256(), _BLOCK
    for piece in pieces:
        rest = memoryview(piece)
        while rest:
            part = rest[:room]
            state.update(part)
            rest, room = rest[len(part) :], room - len(part)
            if not room:
                yield state.digest()
                state, room = sha256(), _BLOCK
    if room < _BLOCK:
        yield state.digest()
