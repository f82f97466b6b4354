"""One process at a time: a lock that a file stands for, and that ends with its holder."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Final

try:
    import fcntl
except ImportError:
    # A system without these locks: everybody works at once, and one result stays.
    fcntl = None

_PAUSE_S: Final = 0.02


@contextmanager
def alone(path: Path, patience_s: float = 120.0) -> Generator[None]:
    """Hold the lock of the file `path` inside the block; the file is there no longer than that.

    The system lets go of it when a holder is killed. Who has waited for `patience_s` goes on
    without it, and so does everybody where the file cannot be made: whoever relies on the lock
    for more than saving work must not.
    """
    descriptor = _acquire(path, monotonic() + patience_s)
    try:
        yield
    finally:
        if descriptor is not None:
            # Before the lock is let go, so that nobody holds a lock that others cannot see.
            with suppress(OSError):
                path.unlink()
            os.close(descriptor)


def _acquire(path: Path, end: float) -> int | None:
    while (descriptor := _opened(path)) is not None:
        held = _locked(descriptor, end)
        if held and _is_there(path, descriptor):
            return descriptor
        os.close(descriptor)
        if not held:
            return None
    return None


def _opened(path: Path) -> int | None:
    if fcntl is None:
        return None
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None


def _locked(descriptor: int, end: float) -> bool:
    while fcntl is not None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if monotonic() >= end:
                return False
            sleep(_PAUSE_S)
        except OSError:
            # A file system without locks.
            return False
    return False


def _is_there(path: Path, descriptor: int) -> bool:
    """Tell whether the locked file still has its name: a former holder may have taken it away."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return os.path.samestat(found, os.fstat(descriptor))
