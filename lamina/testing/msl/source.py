"""Metal text seen without its comments and attributes, each character where it was."""

from __future__ import annotations

import re
from typing import Final

_COMMENT: Final = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_CLOSING: Final = {"(": ")", "[": "]", "{": "}", "<": ">"}


def blank(text: str) -> str:
    """Return as many spaces as `text` has characters, and its line ends."""
    return re.sub(r"[^\n]", " ", text)


def without_comments(text: str) -> str:
    """Return `text` with blanks for comments."""

    def kept(match: re.Match[str]) -> str:
        return match[0] if match[0].startswith('"') else blank(match[0])

    return _COMMENT.sub(kept, text)


def attributes(text: str) -> list[tuple[int, int]]:
    """Return where each `[[…]]` begins and ends."""
    found: list[tuple[int, int]] = []
    at = text.find("[[")
    while at >= 0:
        end = closing(text, at)
        found.append((at, end))
        at = text.find("[[", end)
    return found


def without_attributes(text: str) -> str:
    """Return `text` with blanks for its `[[…]]`."""
    for begin, end in attributes(text):
        text = text[:begin] + blank(text[begin:end]) + text[end:]
    return text


def closing(text: str, at: int) -> int:
    """Return the place after the bracket that closes the one at `at`, or the end of the text."""
    opened, closed, depth = text[at], _CLOSING[text[at]], 0
    for place in range(at, len(text)):
        depth += (text[place] == opened) - (text[place] == closed)
        if not depth:
            return place + 1
    return len(text)


def split(text: str, start: int = 0) -> list[tuple[int, str]]:
    """Return what lies between the commas that no bracket encloses, and where; nothing for ""."""
    pieces: list[tuple[int, str]] = []
    begin = at = 0
    while at < len(text):
        if text[at] == ",":
            pieces.append((start + begin, text[begin:at]))
            begin = at + 1
        at = closing(text, at) if text[at] in _CLOSING else at + 1
    if text[begin:].strip() or pieces:
        pieces.append((start + begin, text[begin:]))
    return pieces


def line_at(text: str, at: int) -> int:
    """Return the number of the line that holds the character at `at`."""
    return text.count("\n", 0, at) + 1
