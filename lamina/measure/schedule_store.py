"""Keep what was measured for the next compilation."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

from lamina.atomic_file import write_whole
from lamina.errors import FormatError, InputError, LaminaError
from lamina.knobs import CACHE, DISK_CACHE
from lamina.passes.schedules.database import (
    MOST_BYTES,
    Database,
    Measured,
    database_bytes,
    database_path,
    load_database,
)
from lamina.passes.schedules.machine import Machine
from lamina.targets.file_lock import alone

_ROOM: Final = 64 << 10
"""Bytes that the schedules of a model or two take."""


def store_path(machine: Machine) -> Path:
    """Return the file of a machine's schedules; `InputError` if nothing is kept on disk."""
    path = database_path(machine)
    if path is None:
        raise InputError(
            f"schedules are kept in the cache folder, and there is none: see {DISK_CACHE.name} and "
            f"{CACHE.name}"
        )
    return path


def writable_store_path(machine: Machine) -> Path:
    """Return the file of a machine's schedules, once its folder is seen to take files.

    Raises `InputError` if nothing is kept on disk, `LaminaError` where no file can be written.
    """
    path = store_path(machine)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with TemporaryFile(dir=path.parent) as file:
            file.write(b"\0" * _ROOM)
    except OSError as error:
        raise _unwritable(path, error) from None
    return path


def keep_schedules(machine: Machine, found: Database, dropped: Iterable[str] = ()) -> Path:
    """Put `found` into a machine's file, take the classes `dropped` out, and return the file.

    What other processes put there stays; a file that is damaged is written anew, with a warning,
    and one that would be empty is taken away. Raises `InputError` if nothing is kept on disk,
    `LaminaError` where the file cannot be written.
    """
    path = store_path(machine)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with alone(path.with_suffix(".lock")):
            _merge(path, machine, found, frozenset(dropped))
    except OSError as error:
        raise _unwritable(path, error) from None
    return path


def _unwritable(path: Path, error: OSError) -> LaminaError:
    return LaminaError(f"{path}: cannot be written: {error.strerror or error}")


def _merge(path: Path, machine: Machine, found: Database, dropped: frozenset[str]) -> None:
    try:
        before = dict(load_database(path, machine))
    except FormatError as error:
        warnings.warn(f"{error}; it is written anew", stacklevel=2)
        before = dict[str, Measured]()
    merged = {key: entry for key, entry in before.items() if key not in dropped} | dict(found)
    if not merged:
        with suppress(FileNotFoundError):
            path.unlink()
        return
    data = database_bytes(merged, machine)
    if len(data) > MOST_BYTES:
        raise LaminaError(f"{path}: has no room for more schedules: remove it and tune again")
    write_whole(path, [data])
