"""What is said where a file cannot be written."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from lamina.errors import InputError


@contextmanager
def writing(path: Path) -> Generator[None]:
    """Turn an OSError of the block, which writes `path`, into an `InputError` that names it."""
    try:
        yield
    except OSError as error:
        # NumPy's has no reason of the system's, and counts what was written.
        reason = error.strerror or str(error)
        raise InputError(f"{path}: cannot be written: {reason}") from None
