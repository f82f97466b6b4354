"""The C++ program of a Metal text: the text between what Metal gives and a table of its kernels."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product
from typing import Final

from lamina.testing.msl.errors import MslError
from lamina.testing.msl.kernels import PLACES, Argument, Kernel
from lamina.testing.msl.source import line_at, split, without_attributes, without_comments

FILE: Final = "kernel.metal"
"""What the compiler's messages and debugging lines call the text."""

_INCLUDE: Final = re.compile(r"^[ \t]*#[ \t]*include[ \t]*([<\"].*[>\"]).*$", re.MULTILINE)
_KNOWN: Final = re.compile(r"<(metal_\w+|simd/simd\.h)>")
_VARIABLES: Final = re.compile(
    r"(?<=[;{}])(\s*)threadgroup\s+([\w:]+(?:\s*<[^;<>]*>)?)"
    r"\s+(\w+(?:\s*\[[^\[\]]*\])*(?:\s*,\s*\w+(?:\s*\[[^\[\]]*\])*)*)\s*;"
)
_LEFT: Final = re.compile(r"\bthreadgroup\b[^;=*&(){}]*[;={]")
_VARIABLE: Final = re.compile(r"\s*(\w+)\s*((?:\[[^\[\]]*\]\s*)*)")
_TWICE_CONST: Final = re.compile(r"\bconst(\s+)constant\b|\bconstant(\s+)const\b")


def program_of(text: str, kernels: Iterable[Kernel]) -> str:
    """Return the C++ text of the program that runs `kernels`, lines of the text kept."""
    return "\n".join(
        (
            '#include "metal.h"',
            "namespace program {",
            f'#line 1 "{FILE}"',
            _rewritten(text),
            '#line 1 "arguments"',
            *(_call(kernel) for kernel in kernels),
            "}",
            "const msl::Kernel msl::kernels[] = {",
            *(f'{{"{kernel.name}", program::call_{kernel.name}}},' for kernel in kernels),
            "{nullptr, nullptr}};",
            "",
        )
    )


def named_vectors() -> str:
    """Return the header that gives vectors their components and choices of them by name."""
    lines: list[str] = []
    for n in (2, 3, 4):
        lines += [f"template <class T> struct named<T, {n}> {{", "union {", f"T data[{n}];"]
        lines += [f"struct {{ T {', '.join(names[:n])}; }};" for names in ("xyzw", "rgba")]
        for count in (2, 3, 4):
            lines += [_choice(places) for places in product(range(n), repeat=count)]
        lines += ["};", "named() = default;", "};"]
    return "\n".join((*lines, ""))


def _choice(places: tuple[int, ...]) -> str:
    names = ("".join(letters[i] for i in places) for letters in ("xyzw", "rgba"))
    return f"msl::swizzle<T, {', '.join(map(str, places))}> {', '.join(names)};"


def _rewritten(text: str) -> str:
    text = without_attributes(without_comments(text))
    text = _TWICE_CONST.sub(lambda match: f"constant{match[1] or match[2]}", without_includes(text))
    numbers = iter(range(len(text)))

    def declared(match: re.Match[str]) -> str:
        variables = (each for _, each in split(match[3]))
        return match[1] + "".join(_variable(match[2], each, next(numbers)) for each in variables)

    text = _VARIABLES.sub(declared, text)
    if left := _LEFT.search(text):
        what = " ".join(left[0][:-1].split())
        line = line_at(text, left.start())
        raise MslError(f"line {line}: {what} is no declaration that is known: expected no value")
    return text


def without_includes(text: str) -> str:
    """Return a text without its includes; `MslError` if they are others than Metal's."""
    names = _INCLUDE.findall(text)
    if unknown := [name for name in names if not _KNOWN.fullmatch(name)]:
        raise MslError(f"the Metal text includes {unknown[0]}: expected headers of Metal only")
    if "<metal_stdlib>" not in names:
        raise MslError("the Metal text does not include <metal_stdlib>")
    return _INCLUDE.sub("", text)


def _variable(element: str, text: str, number: int) -> str:
    match = _VARIABLE.fullmatch(text)
    assert match
    # The line ends of a long declaration are kept.
    lines = "\n" * text.count("\n")
    size = "".join(match[2].split())
    return (
        f'auto& {match[1]} = msl::threadgroup_variable<{element}{size}, {number}>("{match[1]}");'
        f"{lines}"
    )


def _call(kernel: Kernel) -> str:
    arguments = ", ".join(map(_given, kernel.arguments))
    return (
        f"static void call_{kernel.name}(const msl::Arguments& given, const msl::Place& at) "
        f"{{ {kernel.name}({arguments}); }}"
    )


def _given(argument: Argument) -> str:
    if argument.kind in PLACES:
        return PLACES[argument.kind].format(argument.type)
    return f"msl::argument<{argument.type}>::of(given.{argument.kind}s[{argument.index}])"
