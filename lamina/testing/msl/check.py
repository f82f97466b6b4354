"""Metal text type-checked by libclang, as C++ for OpenCL, whose address spaces are Metal's.

What differs is declared in `declarations/`. Choices of components of bfloat vectors, and vectors
begun as `float4 v(…)` rather than `float4 v = float4(…)`, are not known there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from lamina.testing.msl.errors import MslError
from lamina.testing.msl.kernels import kernels_of
from lamina.testing.msl.program import FILE, without_includes
from lamina.testing.msl.source import without_attributes, without_comments

if TYPE_CHECKING:
    from clang import cindex

_ARGUMENTS: Final = (
    *"-x clcpp -cl-std=clc++2021 -target spir64 -cl-no-stdinc".split(),
    *"-cl-single-precision-constant -ferror-limit=0".split(),
    *"-Wno-user-defined-literals -Wno-undefined-inline -Wno-unknown-pragmas".split(),
    *("-I", str(Path(__file__).parent / "declarations"), "-include", "metal_stdlib.h"),
)
# Of vectors, clang makes one from one argument only; the declarations have functions for more.
_VECTOR: Final = re.compile(
    r"(?<!\w)(?:metal::)?((?:bool|u?char|u?short|u?int|u?long|half|b?float)[234])(?=\s*\()"
)
_SPACED: Final = ("VAR_DECL", "PARM_DECL", "FIELD_DECL")
_GENERIC: Final = 5
_SPELT: Final = {
    "__global": "device",
    "__local": "threadgroup",
    "__constant": "constant",
    "__private": "thread",
    "msl_": "",
    "attempt to use a poisoned identifier": "there is no double",
}


@dataclass(frozen=True)
class Diagnostic:
    """What is wrong in a line of a Metal text; line 0 is the text as a whole."""

    line: int
    severity: Literal["warning", "error"]
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.severity}: {self.message}"


def check(text: str) -> list[Diagnostic]:
    """Return what is wrong with the types and address spaces of a Metal text, by line.

    `MslError` if its kernels' attributes are wrong, or libclang is not installed.
    """
    kernels_of(text)
    plain = without_includes(without_attributes(without_comments(text)))
    try:
        from clang import cindex
    except ImportError:
        raise MslError(
            "Metal text is checked by libclang, which is missing: pip install 'libclang>=18,<19'"
        ) from None
    source = _VECTOR.sub(r"msl_\1", plain)
    try:
        unit = cindex.Index.create().parse(FILE, _ARGUMENTS, [(FILE, source)])
    except (cindex.TranslationUnitLoadError, cindex.LibclangError) as error:
        raise MslError(f"libclang cannot read the Metal text: {error}") from None
    found = [
        Diagnostic(_line(each), _severity(each, cindex.Diagnostic.Error), _spelt(each.spelling))
        for each in unit.diagnostics
        if each.severity >= cindex.Diagnostic.Warning
    ]
    return sorted([*found, *_without_space(unit.cursor)], key=lambda each: each.line)


def _severity(diagnostic: cindex.Diagnostic, error: int) -> Literal["warning", "error"]:
    return "error" if diagnostic.severity >= error else "warning"


def _line(diagnostic: cindex.Diagnostic) -> int:
    """Where it is in the text, or what in the text led to it."""
    places = (diagnostic.location, *(note.location for note in diagnostic.children))
    return next((each.line for each in places if each.file and each.file.name == FILE), 0)


def _spelt(message: str) -> str:
    """Say what Metal calls what the declarations are made of."""
    for theirs, ours in _SPELT.items():
        message = message.replace(theirs, ours)
    return message


def _without_space(cursor: cindex.Cursor) -> Iterator[Diagnostic]:
    """Find pointers and references that say not where they point, which Metal refuses."""
    for each in cursor.get_children():
        place = each.location
        if not place.file or place.file.name != FILE:
            continue
        if (
            each.kind.name in _SPACED
            and (pointee := each.type.get_pointee()).kind.name != "INVALID"
        ):
            if pointee.get_address_space() == _GENERIC:
                message = f"{each.spelling} has no address space: expected device, thread, …"
                yield Diagnostic(place.line, "error", message)
        yield from _without_space(each)
