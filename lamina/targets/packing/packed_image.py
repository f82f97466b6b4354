"""The file of a packed image: a header that says what it is of, then the arrays, page-aligned."""

from __future__ import annotations

import json
import mmap
import os
import struct
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from math import prod
from pathlib import Path
from typing import Final

import numpy as np

from lamina.errors import FormatError, InputError
from lamina.targets.memory import (
    ALIGNMENT,
    Array,
    allocate,
    element_dtype,
    reads_into_huge_pages,
)
from lamina.targets.plans.plan_tables import Stored

_MAGIC: Final = b"LAMPACK\n"
_VERSION: Final = 1
_HEAD: Final = struct.Struct("<8sIIQ32s")
"""Magic, version, length of the text after it, size of the arrays, sha256 of the text."""

START: Final = 4096
"""Where the arrays begin."""

_CHUNK: Final = 16 << 20


@dataclass(frozen=True)
class Layout:
    """Where each array of an image begins, and the bytes of them all."""

    specs: tuple[Stored, ...]
    offsets: tuple[int, ...]
    size: int

    def arrays(self, image: Array) -> list[Array]:
        """Return the arrays in `image`, as views."""
        found: list[Array] = []
        for spec, offset in zip(self.specs, self.offsets, strict=True):
            part = image[offset : offset + _bytes(spec)]
            found.append(part.view(element_dtype(spec.dtype)).reshape(spec.shape))
        return found

    def describe(self) -> bytes:
        """Return the layout as text."""
        specs = [(spec.name, spec.dtype, spec.shape) for spec in self.specs]
        return json.dumps([specs, self.offsets, self.size]).encode()


def head_of(key: str, layout: Layout) -> bytes:
    """Return what a file of an image under `key` begins with, up to its arrays."""
    text = json.dumps({"key": key}).encode()
    head = _HEAD.pack(_MAGIC, _VERSION, len(text), layout.size, sha256(text).digest()) + text
    return head.ljust(START, b"\0")


def lay_out(specs: Sequence[Stored]) -> Layout:
    """Return the layout with these arrays one after another, aligned."""
    offsets: list[int] = []
    end = 0
    for spec in specs:
        offsets.append(-(-end // ALIGNMENT) * ALIGNMENT)
        end = offsets[-1] + _bytes(spec)
    return Layout(tuple(specs), tuple(offsets), end)


def read_image(path: Path, key: str, layout: Layout) -> Array | None:
    """Return the image kept under `key`; None if there is none, or it is of something else.

    One that is cut short or broken is named in a warning and taken away. It is
    mapped, or read into huge pages: see `reads_into_huge_pages`.
    """
    try:
        with path.open("rb") as file:
            _check(file.read(START), os.fstat(file.fileno()).st_size, key, layout)
            if (room := _room(layout.size)) is not None:
                return _read(file.fileno(), room)
            mapping = mmap.mmap(file.fileno(), START + layout.size, access=mmap.ACCESS_READ)
    except _Stale:
        return None
    except FileNotFoundError:
        return None
    except (FormatError, OSError, ValueError) as error:
        warnings.warn(f"{path}: {error}; the weights are packed again", stacklevel=2)
        with suppress(OSError):
            path.unlink()
        return None
    return np.frombuffer(mapping, np.uint8)[START:]


class _Stale(Exception):
    """The image is whole, and of another state of the files."""


def _check(start: bytes, size: int, key: str, layout: Layout) -> None:
    if len(start) < START or not start.startswith(_MAGIC):
        raise FormatError("is no packed image")
    _, version, length, arrays, digest = _HEAD.unpack_from(start)
    text = start[_HEAD.size : _HEAD.size + length]
    if version != _VERSION or sha256(text).digest() != digest:
        raise FormatError("is a packed image with a broken header")
    if size != START + arrays:
        raise FormatError(f"expected {START + arrays} bytes, got {size}")
    if json.loads(text)["key"] != key or arrays != layout.size:
        raise _Stale


def _room(size: int) -> Array | None:
    """Return memory to read an image into, None where it is to be mapped."""
    try:
        return allocate(size) if reads_into_huge_pages(size) else None
    except InputError:
        return None


def _read(descriptor: int, image: Array) -> Array:
    view, at = image.data, 0
    while at < len(view):
        count = os.preadv(descriptor, [view[at : at + _CHUNK]], START + at)
        if count == 0:
            raise FormatError("was cut short")
        at += count
    image.flags.writeable = False
    return image


def _bytes(spec: Stored) -> int:
    return prod(spec.shape) * element_dtype(spec.dtype).itemsize
