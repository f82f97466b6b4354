"""JSON from untrusted files: no duplicate keys, no NaN, one clear error."""

import json
import os
from typing import Any, cast

from lamina.errors import FormatError
from lamina.frontend.mapped_file import MappedFile
from lamina.frontend.shown import shown

_LARGEST_FILE = 100_000_000


def parse_json(text: bytes, where: str) -> object:
    """Parse `text`, which must be UTF-8; `where` begins every `FormatError`.

    Source: RFC 8259, without its leave to accept repeated names or other number spellings.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                raise FormatError(f"{where}: the key {shown(key)} appears twice in one object")
            # A lone surrogate in a name cannot be printed; encoding refuses it.
            key.encode("utf-8")
            found[key] = value
        return found

    def no_constant(spelling: str) -> None:
        raise FormatError(f"{where}: {spelling} is not a JSON number")

    try:
        return json.loads(
            text.decode("utf-8"), object_pairs_hook=unique, parse_constant=no_constant
        )
    except RecursionError as error:
        raise FormatError(f"{where}: the JSON is nested too deeply") from error
    except ValueError as error:
        raise FormatError(f"{where}: not valid JSON: {error}") from error


def parse_json_object(text: bytes, where: str) -> dict[str, object]:
    """Parse `text`, which must be one JSON object; `where` begins every `FormatError`."""
    value = parse_json(text, where)
    if not isinstance(value, dict):
        raise FormatError(f"{where}: expected a JSON object, got {shown(value)}")
    return cast(dict[str, object], value)


def read_json_object(path: str | os.PathLike[str]) -> dict[str, object]:
    """Read a JSON file whose top level is an object; `FormatError` names the file."""
    return parse_json_object(_text(path), str(path))


def read_json_objects(path: str | os.PathLike[str]) -> list[dict[str, object]]:
    """Read a JSON file whose top level is a list of objects; `FormatError` names the file."""
    value = parse_json(_text(path), str(path))
    items = cast(list[object], value if isinstance(value, list) else [None])
    if not all(isinstance(item, dict) for item in items):
        raise FormatError(f"{path}: expected a JSON list of objects")
    return cast(list[dict[str, object]], items)


def _text(path: str | os.PathLike[str]) -> bytes:
    source = MappedFile(path)
    if source.size > _LARGEST_FILE:
        raise FormatError(
            f"{source.path}: expected at most {_LARGEST_FILE} bytes of JSON, got {source.size}"
        )
    return source.data[:]
