"""Write a file so that nobody ever sees half of it."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from time import time
from typing import IO, Any, Final

_PRIVATE: Final = 0o600
_LONGEST: Final = 200
_UNFINISHED: Final = re.compile(r"\..+\.[0-9a-f]{16}")
_DEAD_S: Final = 600


@contextmanager
def whole_file(path: Path, *, mode: int = _PRIVATE) -> Generator[IO[bytes]]:
    """Give an empty file to write, which takes its name at the end of the block.

    Whatever is raised in the block, or then, leaves nothing behind. Two processes that write at
    once both succeed, and one of them stays. The user's umask is taken off `mode`.
    """
    name = path.parent / f".{path.name[:_LONGEST]}.{token_hex(8)}"
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.replace(name, path)
    except BaseException:
        name.unlink(missing_ok=True)
        raise


def remove_unfinished(folder: Path) -> None:
    """Take away what writers that were killed left in a folder in which all files are whole ones.

    A writer that lives but wrote nothing for ten minutes has to do without its file.
    """
    with suppress(OSError):
        for entry in [*folder.iterdir()]:
            if _UNFINISHED.fullmatch(entry.name) and time() - entry.lstat().st_mtime > _DEAD_S:
                entry.unlink()


def write_whole(
    path: Path, chunks: Iterable[bytes | memoryview[Any]], *, mode: int = _PRIVATE
) -> None:
    """Write `chunks` as a `whole_file`; OSError leaves nothing behind."""
    with whole_file(path, mode=mode) as file:
        for chunk in chunks:
            file.write(chunk)
