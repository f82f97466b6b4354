"""Schedules that were measured on this machine, in a file of the cache folder.

The file is JSON: `{"format": 1, "machine": …, "schedules": {CLASS: ENTRY}}`. An entry has the
`schedule` (its numbers by name), the `nanoseconds` that a call took with it, the same of the
`default`, and the `versions` that it was measured with: others leave it aside.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, cast

from lamina import knobs
from lamina.errors import FormatError
from lamina.passes.schedules.machine import Machine

FORMAT: Final = 1
MOST_BYTES: Final = 1 << 20
"""The largest file that is read; a schedule takes some four hundred bytes."""

_FOLDER: Final = "schedules"
NAMES: Final = frozenset({"m", "n", "r", "k", "b"})
_LARGEST: Final = 1 << 20
_LONGEST_CLASS: Final = 1000
_LONGEST_TIME: Final = 1e15

Numbers = Mapping[str, int]
"""The numbers of a schedule, by name."""


@dataclass(frozen=True)
class Measured:
    """A schedule that was faster than the default one, and the ns that a call took with each."""

    schedule: Numbers
    nanoseconds: float
    default: Numbers
    default_nanoseconds: float
    versions: Mapping[str, str]

    @property
    def gain(self) -> float:
        """How much less time a call takes, as a part of the default's."""
        return 1.0 - self.nanoseconds / self.default_nanoseconds

    @property
    def current(self) -> bool:
        """Whether it was measured with the versions that are installed now."""
        return dict(self.versions) == dict(versions())


Database = Mapping[str, Measured]
"""What was measured, by class."""


@cache
def versions() -> Mapping[str, str]:
    """Return the versions that code depends on."""
    from importlib.metadata import version

    import lamina

    return {"lamina": lamina.__version__, "llvmlite": version("llvmlite")}


def database_path(machine: Machine, folder: Path | None = None) -> Path | None:
    """Return the file of a machine's schedules, there or not; None if nothing is kept on disk.

    `folder` is the cache folder, the knobs' by default.
    """
    kept = knobs.kept_dir() if folder is None else folder
    return None if kept is None else kept / _FOLDER / f"{machine.digest}.json"


def database_digest(machine: Machine) -> str:
    """Return what tells the contents of a machine's file apart; empty if there is none."""
    path = database_path(machine)
    if path is None:
        return ""
    try:
        with path.open("rb") as file:
            return sha256(file.read(MOST_BYTES + 1)).hexdigest()
    except OSError:
        return ""


def read_database(machine: Machine) -> Database:
    """Return the schedules measured on a machine; none, after a warning, if the file is bad."""
    path = database_path(machine)
    if path is None:
        return {}
    try:
        return load_database(path, machine)
    except FormatError as error:
        warnings.warn(f"{error}; no measured schedules are used", stacklevel=2)
        return {}


def load_database(path: Path, machine: Machine) -> Database:
    """Return what a file says; nothing if there is no file.

    Raises `FormatError` for one that is damaged, too large, or of another machine.
    """
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise FormatError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > MOST_BYTES:
        raise FormatError(f"{path}: has more than {MOST_BYTES} bytes")
    try:
        return _parsed(json.loads(data), machine)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise FormatError(f"{path}: is no file of schedules: {error!r}") from None


def database_bytes(database: Database, machine: Machine) -> bytes:
    """Return the contents of a file."""
    schedules = {key: _fields(database[key]) for key in sorted(database)}
    fields = {"format": FORMAT, "machine": asdict(machine), "schedules": schedules}
    return json.dumps(fields, indent=1).encode() + b"\n"


def _parsed(fields: Any, machine: Machine) -> Database:
    if fields["format"] != FORMAT:
        raise ValueError(f"field format: expected {FORMAT}, got {fields['format']!r}")
    if fields["machine"] != asdict(machine):
        raise ValueError("field machine: it is of another machine")
    found: dict[str, Measured] = {}
    for key, entry in cast("dict[str, Any]", fields["schedules"]).items():
        if len(key) > _LONGEST_CLASS:
            raise ValueError(f"a class has {len(key)} letters")
        found[key] = _entry(entry)
    return found


def _entry(fields: dict[str, Any]) -> Measured:
    default = fields["default"]
    spoken = {str(name): str(text) for name, text in fields["versions"].items()}
    return Measured(
        _numbers(fields["schedule"]),
        _time(fields["nanoseconds"]),
        _numbers(default["schedule"]),
        _time(default["nanoseconds"]),
        spoken,
    )


def _numbers(fields: dict[str, Any]) -> Numbers:
    if not {"m", "n"} <= fields.keys() <= NAMES:
        raise ValueError(f"a schedule has the numbers {sorted(fields)}")
    for value in fields.values():
        if type(value) is not int or not 1 <= value <= _LARGEST:
            raise ValueError(f"a schedule has the number {value!r}")
    return fields


def _time(value: Any) -> float:
    if not isinstance(value, int | float) or not 0 < value < _LONGEST_TIME:
        raise ValueError(f"a time is {value!r}")
    return float(value)


def _fields(entry: Measured) -> dict[str, Any]:
    default = {"schedule": dict(entry.default), "nanoseconds": entry.default_nanoseconds}
    return {
        "schedule": dict(entry.schedule),
        "nanoseconds": entry.nanoseconds,
        "default": default,
        "versions": dict(entry.versions),
    }
