"""A packed image written to its file by a thread of its own, while it is made."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Self

from lamina.atomic_file import remove_unfinished, whole_file
from lamina.targets.memory import Array
from lamina.targets.packing.packed_image import START, Layout, head_of


class ImageWriter:
    """Keeps an image under a key; where it cannot be written, that is a warning.

    A context manager: it ends when the file has its name. Whatever is raised inside leaves no
    file, and so does the end of the process, since the name is given last.
    """

    def __init__(self, path: Path, key: str, layout: Layout, arrays: Sequence[Array]) -> None:
        """Write the image that has these arrays, those of `layout` in order."""
        self._path, self._key, self._layout = path, key, layout
        self._arrays = arrays
        self._made: SimpleQueue[int | None] = SimpleQueue()
        self._failed: OSError | None = None
        self._given_up = False
        # An interrupt that comes right after its start must not leave the process waiting for it.
        self._thread = threading.Thread(target=self._keep, name="lamina-image-writer", daemon=True)

    def __enter__(self) -> Self:
        # Where there may be no more threads, all is written at the end.
        with suppress(RuntimeError):
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._given_up = kind is not None
        self._made.put(None)
        if self._thread.ident is None:
            self._keep()
        else:
            self._thread.join()
        if self._failed is not None:
            reason = self._failed.strerror
            warnings.warn(f"{self._path}: cannot be kept: {reason}", stacklevel=2)

    def made(self, number: int) -> None:
        """Have the array of this number written: it stays as it is from now on."""
        self._made.put(number)

    def _keep(self) -> None:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            remove_unfinished(self._path.parent)
            with whole_file(self._path) as file:
                self._write(file.fileno())
        except _GivenUp:
            pass
        except OSError as error:
            self._failed = error

    def _write(self, descriptor: int) -> None:
        os.ftruncate(descriptor, START + self._layout.size)
        while (number := self._made.get()) is not None:
            _write_at(descriptor, self._arrays[number], START + self._layout.offsets[number])
        if self._given_up:
            raise _GivenUp
        os.pwrite(descriptor, head_of(self._key, self._layout), 0)


class _GivenUp(Exception):
    """The image was not made to its end."""


def _write_at(descriptor: int, array: Array, at: int) -> None:
    rest = array.reshape(-1).view("u1").data
    while rest.nbytes:
        count = os.pwrite(descriptor, rest, at)
        rest, at = rest[count:], at + count
