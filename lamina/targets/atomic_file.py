"""Write a file so that nobody ever sees half of it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def write_whole(path: Path, chunks: Iterable[bytes | memoryview[Any]]) -> None:
    """Write `chunks` under a name of its own and rename it; OSError leaves nothing behind.

    Two processes that write at once both succeed, and one of them stays.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            for chunk in chunks:
                file.write(chunk)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
