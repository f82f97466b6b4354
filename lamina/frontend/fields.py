"""Typed look-ups in the settings that a model file carries."""

from collections.abc import Collection, Mapping
from typing import cast

from lamina.errors import FormatError, UnsupportedError
from lamina.frontend.shown import shown

_LARGEST_COUNT = 2**31 - 1


class Fields:
    """The settings of one file. A null is a missing one; every error names file and field.

    Look-ups take the default for a missing field and raise `FormatError` if there is none, or if
    the value has another type or lies outside what the look-up allows.
    """

    values: Mapping[str, object]
    where: str

    def __init__(self, values: Mapping[str, object], where: object) -> None:
        self.values = values
        self.where = str(where)

    def __contains__(self, key: str) -> bool:
        return self.values.get(key) is not None

    def fault(self, key: str, expected: str) -> FormatError:
        """Return the error that says what `key` should have been."""
        if key not in self:
            return FormatError(f"{self.where}: field {key} is missing, expected {expected}")
        got = shown(self.values[key])
        return FormatError(f"{self.where}: field {key}: expected {expected}, got {got}")

    def unsupported(self, key: str, supported: str) -> UnsupportedError:
        """Return the error that says which values of `key` are implemented."""
        got = shown(self.values.get(key))
        return UnsupportedError(
            f"{self.where}: field {key}: {got} is not supported, only {supported}"
        )

    def count(self, key: str, default: int | None = None) -> int:
        """Return a whole number from 1 to 2**31 - 1."""
        value = default if key not in self else self.values[key]
        if type(value) is not int or not 1 <= value <= _LARGEST_COUNT:
            raise self.fault(key, "a whole number from 1 to 2147483647")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """Return a finite number above zero."""
        value = default if key not in self else self.values[key]
        if type(value) not in (int, float):
            raise self.fault(key, "a number above zero")
        number = cast(float, value)
        # A huge int has no float; comparing it needs none.
        if not 0 < number < 1e300:
            raise self.fault(key, "a finite number above zero")
        return float(number)

    def flag(self, key: str, default: bool | None = None) -> bool:
        """Return true or false."""
        value = default if key not in self else self.values[key]
        if type(value) is not bool:
            raise self.fault(key, "true or false")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """Return a string."""
        value = default if key not in self else self.values[key]
        if type(value) is not str:
            raise self.fault(key, "a string")
        return value

    def table(self, key: str) -> "Fields | None":
        """Return the nested settings under `key`, or None if there are none."""
        if key not in self:
            return None
        value = self.values[key]
        if not isinstance(value, Mapping):
            raise self.fault(key, "an object")
        return Fields(cast(Mapping[str, object], value), f"{self.where}: field {key}")

    def token_ids(self, key: str, vocab_size: int) -> tuple[int, ...]:
        """Return the ids under `key`, one or a list of them, each below `vocab_size`."""
        if key not in self:
            return ()
        value = self.values[key]
        ids = cast(list[object], value) if isinstance(value, list) else [value]
        found: list[int] = []
        for one in ids:
            if type(one) is not int or not 0 <= one < vocab_size:
                raise self.fault(key, f"token ids from 0 to {vocab_size - 1}")
            found.append(one)
        return tuple(dict.fromkeys(found))

    def require(self, key: str, supported: Collection[object]) -> None:
        """Raise `UnsupportedError` unless `key` is missing or one of the `supported` values."""
        value = self.values.get(key)
        if value is None or (isinstance(value, bool | int | float | str) and value in supported):
            return
        names = ", ".join(shown(one) for one in supported) or "its absence"
        raise self.unsupported(key, names)
