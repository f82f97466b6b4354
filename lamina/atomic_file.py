"""Write a file so that nobody ever sees half of it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from secrets import token_hex
from typing import Any, Final

_PRIVATE: Final = 0o600
_LONGEST: Final = 200


def write_whole(
    path: Path, chunks: Iterable[bytes | memoryview[Any]], *, mode: int = _PRIVATE
) -> None:
    """Write `chunks` under a name of its own and rename it; OSError leaves nothing behind.

    Two processes that write at once both succeed, and one of them stays. The user's umask is
    taken off `mode`.
    """
    name = path.parent / f".{path.name[:_LONGEST]}.{token_hex(8)}"
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(handle, "wb") as file:
            for chunk in chunks:
                file.write(chunk)
        os.replace(name, path)
    except BaseException:
        name.unlink(missing_ok=True)
        raise
