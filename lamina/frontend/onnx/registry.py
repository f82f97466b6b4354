"""Which converter takes which operator, by domain, name and operator set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from lamina.frontend.onnx.node import Node
from lamina.frontend.onnx.values import Value

Result = Value | Sequence[Value]
Converter = Callable[[Node], Result]
"""Adds what a node means to the graph and returns its outputs, or the one that it has."""

Table = dict[tuple[str, str], list[tuple[int, Converter]]]

CONVERTERS: Final[Table] = {}
"""The operators of the box, each with the operator sets from which on a converter holds."""

MICROSOFT: Final = "com.microsoft"


def converts(*names: str, since: int = 1, domain: str = "") -> Callable[[Converter], Converter]:
    """Register a converter for operators, from an operator set of their domain on."""

    def register(function: Converter) -> Converter:
        for name in names:
            entries = CONVERTERS.setdefault((domain, name), [])
            entries.append((since, function))
            entries.sort(key=lambda entry: entry[0])
        return function

    return register


def converter_of(
    table: Mapping[tuple[str, str], Sequence[tuple[int, Converter]]],
    domain: str,
    op: str,
    version: int,
) -> Converter | None:
    """Return what converts an operator of that version of its domain; None if nothing does."""
    entries = table.get((domain, op), ())
    fitting = [function for since, function in entries if since <= version]
    return fitting[-1] if fitting else None
