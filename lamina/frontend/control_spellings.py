"""Control tokens spelled out in what a user wrote, told apart from those a template writes."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, cast

from lamina.errors import InputError

_PRIVATE: Final = range(0xF0000, 0xFFFFE)
"""Plane 15, whose characters mean nothing but what two parties agree on."""


class ControlSpellings:
    """Finds the spellings of control tokens in text."""

    def __init__(self, spellings: Iterable[str]) -> None:
        """Look for `spellings`, each of at least one character."""
        self._exact = set(spellings)
        self._folded = {spelling.lower() for spelling in self._exact}
        self._begun = {whole[:n] for whole in self._folded for n in range(1, len(whole))}
        self._lengths = sorted({len(spelling) for spelling in self._exact}, reverse=True)
        firsts = {case for s in self._exact for case in (s[0], s[0].lower(), s[0].upper())}
        self.first = re.compile("|".join(map(re.escape, sorted(firsts))) or r"(?!)")
        """Matches a character that a spelling, in either case, may begin with."""

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield start and end of each spelling, the longest at each place, none overlapping."""
        end = 0
        for start in (match.start() for match in self.first.finditer(text)):
            length = next((n for n in self._lengths if text[start : start + n] in self._exact), 0)
            if start >= end and length:
                end = start + length
                yield start, end

    def may_begin(self, text: str, start: int, end: int) -> bool:
        """Return whether a spelling, in either case, is at `start`, perhaps cut off at `end`."""
        rest = text[start : start + self._lengths[0]].lower()
        whole = any(rest[:n] in self._folded for n in self._lengths)
        return whole or (end - start < self._lengths[0] and rest[: end - start] in self._begun)


class Disguise:
    """Messages in which a private character takes the place of the first one of a spelling.

    So the texts' lengths and nearly all that a template might look at stay, and what it writes
    has no spelling left but its own. In each string but a message's role, a spelling is
    disguised whatever its case, and also where it merely begins and the string ends, since a
    template might go on to complete it.
    """

    def __init__(self, spellings: ControlSpellings, messages: Sequence[dict[str, object]]) -> None:
        """Disguise `messages`, JSON-like; `InputError` if they use up all private characters."""
        used = set("".join(_strings(messages)))
        self._unused = (chr(n) for n in _PRIVATE if chr(n) not in used)
        self._spellings = spellings
        self._stand_ins: dict[str, str] = {}
        self.messages = [
            {key: item if key == "role" else self._worn(item) for key, item in message.items()}
            for message in messages
        ]
        self._undo = {ord(stand_in): first for first, stand_in in self._stand_ins.items()}

    def is_worn_in(self, text: str) -> bool:
        """Return whether `text` has anything disguised."""
        return any(stand_in in text for stand_in in self._stand_ins.values())

    def take_off(self, text: str) -> str:
        """Return `text` as the user wrote it."""
        return text.translate(self._undo)

    def _worn(self, value: object) -> object:
        if isinstance(value, str):
            # A template may cut blanks off the end before it goes on.
            end = len(value.rstrip())
            return self._spellings.first.sub(lambda match: self._stand_in(match, end), value)
        if isinstance(value, dict):
            items = cast(dict[str, object], value).items()
            return {self._worn(key): self._worn(item) for key, item in items}
        if isinstance(value, list):
            return [self._worn(item) for item in cast(list[object], value)]
        return value

    def _stand_in(self, match: re.Match[str], end: int) -> str:
        first = match[0]
        if not self._spellings.may_begin(match.string, match.start(), end):
            return first
        if first not in self._stand_ins:
            self._stand_ins[first] = next(self._unused, "")
            if not self._stand_ins[first]:
                raise InputError("the messages use every private character of plane 15")
        return self._stand_ins[first]


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in cast(dict[str, object], value).items():
            yield key
            yield from _strings(item)
    elif isinstance(value, list):
        for item in cast(list[object], value):
            yield from _strings(item)
