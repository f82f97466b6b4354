"""The kernels of a Metal text and their arguments, as its own attributes declare them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from lamina.testing.msl.errors import MslError
from lamina.testing.msl.source import (
    attributes,
    closing,
    line_at,
    split,
    without_attributes,
    without_comments,
)

MAX_BINDINGS: Final = 31
MAX_THREADS: Final = 1024

PLACES: Final = {
    "thread_position_in_grid": "msl::position_in_grid<{}>(at)",
    "threads_per_grid": "msl::threads_in_grid<{}>(at)",
    "thread_position_in_threadgroup": "msl::position<{}>(at.thread_at)",
    "threads_per_threadgroup": "msl::position<{}>(at.threads)",
    "dispatch_threads_per_threadgroup": "msl::position<{}>(at.threads)",
    "threadgroup_position_in_grid": "msl::position<{}>(at.group)",
    "threadgroups_per_grid": "msl::position<{}>(at.groups)",
    "thread_index_in_threadgroup": "msl::ordinal<{}>(at.index)",
    "thread_index_in_simdgroup": "msl::ordinal<{}>(at.lane())",
    "simdgroup_index_in_threadgroup": "msl::ordinal<{}>(at.simdgroup())",
    "simdgroups_per_threadgroup": "msl::ordinal<{}>((at.count() + 31) / 32)",
    "dispatch_simdgroups_per_threadgroup": "msl::ordinal<{}>((at.count() + 31) / 32)",
    "threads_per_simdgroup": "msl::ordinal<{}>(msl::simd_width)",
    "thread_execution_width": "msl::ordinal<{}>(msl::simd_width)",
}
"""What an argument with the attribute is, in C++, for its type."""

_KERNEL: Final = re.compile(r"\bkernel\s+void\s+(\w+)\s*(?=\()")
_TEMPLATE: Final = re.compile(r"\btemplate\s*(<[^;{}]*>)?\s*$")
_BOUND: Final = re.compile(r"(buffer|threadgroup)\s*\(\s*(\w+)\s*\)")
_MOST_THREADS: Final = re.compile(r"max_total_threads_per_threadgroup\s*\(\s*(\d+)\s*\)")
_NAMED: Final = re.compile(r"(.*?)\b(\w+)\s*", re.DOTALL)


@dataclass(frozen=True)
class Argument:
    """An argument of a kernel: `kind` is buffer, threadgroup or one of `PLACES`."""

    name: str
    type: str
    kind: str
    index: int

    @property
    def writable(self) -> bool:
        """Whether the kernel may write to the buffer."""
        return not re.search(r"\bconst(ant)?\b", self.type)


@dataclass(frozen=True)
class Kernel:
    """A kernel of a Metal text, and the line in which it begins."""

    name: str
    arguments: tuple[Argument, ...]
    max_threads: int
    line: int

    @cached_property
    def buffers(self) -> dict[int, Argument]:
        """Arguments that are buffers, by index."""
        return {each.index: each for each in self.arguments if each.kind == "buffer"}

    @cached_property
    def threadgroups(self) -> dict[int, Argument]:
        """Arguments that are threadgroup memory, by index."""
        return {each.index: each for each in self.arguments if each.kind == "threadgroup"}


def kernels_of(text: str) -> dict[str, Kernel]:
    """Return the kernels of a Metal text by name; `MslError` names the line of what is wrong."""
    text = without_comments(text)
    plain = without_attributes(text)
    found: dict[str, Kernel] = {}
    for match in _KERNEL.finditer(plain):
        line = line_at(text, match.start())
        if _TEMPLATE.search(plain, 0, match.start()):
            raise MslError(f"line {line}: kernel {match[1]} is a template, which is not supported")
        if match[1] in found:
            raise MslError(f"line {line}: kernel {match[1]} is declared twice")
        found[match[1]] = _kernel(text, plain, match, line)
    if not found:
        raise MslError("the Metal text has no kernel: expected kernel void NAME(…)")
    return found


def _kernel(text: str, plain: str, match: re.Match[str], line: int) -> Kernel:
    end = closing(plain, match.end())
    inside = text[match.end() + 1 : end - 1]
    arguments = [
        _argument(match[1], piece, line_at(text, at + len(piece) - len(piece.lstrip())))
        for at, piece in split(inside, match.end() + 1)
    ]
    _refuse_twice(match[1], arguments, line)
    before = max(plain.rfind(mark, 0, match.start()) for mark in ";}") + 1
    most = _MOST_THREADS.search(text, before, match.end())
    return Kernel(
        match[1], tuple(arguments), min(int(most[1]), MAX_THREADS) if most else MAX_THREADS, line
    )


def _argument(kernel: str, text: str, line: int) -> Argument:
    where = f"line {line}: an argument of kernel {kernel}"
    spans = attributes(text)
    if not (named := _NAMED.fullmatch(without_attributes(text))) or not named[1].strip():
        raise MslError(f"{where} cannot be read: {' '.join(text.split())}")
    name, kind = named[2], " ".join(named[1].split())
    if len(spans) != 1:
        raise MslError(f"{where}, {name}, has {len(spans)} attributes: expected one [[…]]")
    attribute = text[spans[0][0] + 2 : spans[0][1] - 2].strip()
    if attribute in PLACES:
        return Argument(name, kind, attribute, 0)
    if not (bound := _BOUND.fullmatch(attribute)):
        raise MslError(f"{where}, {name}, has the attribute {attribute}, which is not supported")
    if not bound[2].isdecimal() or int(bound[2]) >= MAX_BINDINGS:
        raise MslError(f"{where}, {name}, has {attribute}: expected a number below {MAX_BINDINGS}")
    _refuse_space(where, name, kind, bound[1])
    return Argument(name, kind, bound[1], int(bound[2]))


def _refuse_space(where: str, name: str, kind: str, attribute: str) -> None:
    spaces = {"buffer": ("device", "constant"), "threadgroup": ("threadgroup",)}[attribute]
    if not any(re.search(rf"\b{space}\b", kind) for space in spaces):
        expected = " or ".join(spaces)
        raise MslError(f"{where}, {name}, is {kind}: expected {expected} for [[{attribute}(…)]]")
    if not kind.endswith(("*", "&")):
        raise MslError(f"{where}, {name}, is {kind}: expected a pointer or a reference")


def _refuse_twice(kernel: str, arguments: list[Argument], line: int) -> None:
    seen: dict[tuple[str, int], str] = {}
    for each in arguments:
        if each.kind in PLACES:
            continue
        place = each.kind, each.index
        if place in seen:
            names = f"{seen[place]} and {each.name}"
            raise MslError(
                f"line {line}: kernel {kernel} has {each.kind}({each.index}) for {names}"
            )
        seen[place] = each.name
