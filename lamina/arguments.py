"""Whether what a caller gives is of the kind that is asked for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from numbers import Integral
from pathlib import Path
from reprlib import Repr
from typing import Final, cast

from lamina.errors import InputError

_REPR: Final = Repr()
_REPR.maxstring = _REPR.maxother = 80


def path_text(value: object, name: str) -> str:
    """Return the text of `value`, text or a path; `InputError`, saying `name`, if it is neither."""
    found = os.fspath(cast("os.PathLike[str]", value)) if hasattr(value, "__fspath__") else value
    if not isinstance(found, str):
        raise wrong_kind(name, value, "a path as text")
    if not found:
        raise InputError(f"{name} is empty: expected the name of a file or folder")
    return found


def checked_path(value: object, name: str) -> Path:
    """Return `value`, text or a path, as a path; `InputError` as `path_text`."""
    return Path(path_text(value, name))


def exists(path: Path) -> bool:
    """Tell whether there is a file or folder; `InputError` where the system cannot say."""
    try:
        return path.exists()
    except OSError as error:
        raise InputError(f"{_REPR.repr(str(path))} cannot be read: {error.strerror}") from None


def whole_number(value: object, name: str, low: int, high: int) -> int:
    """Return `value` as an int; `InputError`, saying `name`, unless it is from `low` to `high`."""
    if not isinstance(value, bool) and isinstance(value, Integral) and low <= int(value) <= high:
        return int(value)
    raise InputError(f"{name} is {_REPR.repr(value)}: expected a whole number from {low} to {high}")


def listed(value: object, name: str, expected: str) -> list[object]:
    """Return the members of `value`; `InputError`, saying `name` and what is `expected`.

    Bytes and mappings are no lists: their members are not what is meant by them.
    """
    if not isinstance(value, bytes | bytearray | Mapping) and isinstance(value, Iterable):
        return list(cast("Iterable[object]", value))
    raise wrong_kind(name, cast(object, value), expected)


def wrong_kind(name: str, value: object, expected: str) -> InputError:
    """Return the error that `value`, called `name`, is not what is `expected`."""
    return InputError(f"{name} is of type {type(value).__name__}: expected {expected}")
