"""Write a file so that nobody ever sees half of it."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import IO, Any, Final

_PRIVATE: Final = 0o600
_LONGEST: Final = 200


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


def write_whole(
    path: Path, chunks: Iterable[bytes | memoryview[Any]], *, mode: int = _PRIVATE
) -> None:
    """Write `chunks` as a `whole_file`; OSError leaves nothing behind."""
    with whole_file(path, mode=mode) as file:
        for chunk in chunks:
            file.write(chunk)
