"""What the codes of texts stand for: one table for all models of a process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from lamina.dialects.text_codes import code_of
from lamina.errors import InputError
from lamina.targets.base import Array

Codes = npt.NDArray[np.int64]


class PinnedText:
    """A text that is in the table for as long as this lives."""

    __slots__ = ("__weakref__", "text")

    def __init__(self, text: str) -> None:
        self.text = text


class TextTable:
    """Texts by their codes; threads may share it.

    A text stays while a call runs that was under way when it was last put in, and for as long
    as it is pinned. Calls are numbered: each entry has the number of the newest call at that
    time, and goes once all that are so old are over.
    """

    def __init__(self, code: Callable[[str], int] = code_of) -> None:
        """Begin with the empty text alone; `code` tells what code a text has, 0 for that one."""
        self._code = code
        self._lock = Lock()
        self._entries: OrderedDict[int, tuple[str, int]] = OrderedDict()
        self._pinned: WeakValueDictionary[int, PinnedText] = WeakValueDictionary()
        self._running: dict[int, None] = {}
        self._newest = 0

    def __len__(self) -> int:
        """Return how many texts there are for running calls."""
        return len(self._entries)

    @contextmanager
    def call(self) -> Generator[None]:
        """Keep what is put in meanwhile."""
        with self._lock:
            self._newest += 1
            number = self._newest
            self._running[number] = None
        try:
            yield
        finally:
            with self._lock:
                del self._running[number]
                self._forget(next(iter(self._running), self._newest + 1))

    def _forget(self, oldest: int) -> None:
        """Take out the texts that no call needs from this one on; the oldest come first."""
        while self._entries:
            code, (_, number) = next(iter(self._entries.items()))
            if number >= oldest:
                return
            del self._entries[code]

    def pin(self, texts: Iterable[str]) -> Sequence[PinnedText]:
        """Put texts in for as long as what is returned lives; InputError if two have one code."""
        coded = {text: self._code(text) for text in texts}
        with self._lock:
            return [self._pin(code, text) for text, code in coded.items()]

    def _pin(self, code: int, text: str) -> PinnedText:
        known = self._find(code)
        pinned = self._pinned.get(code) or PinnedText(text)
        _check(text if known is None else known, text)
        self._pinned[code] = pinned
        return pinned

    def encode(self, texts: npt.NDArray[Any]) -> Codes:
        """Return the codes of an array of str, which are put in.

        Raises InputError where two texts have one code.
        """
        flat: list[str] = texts.ravel().tolist()
        codes = {text: self._code(text) for text in dict.fromkeys(flat)}
        with self._lock:
            for text, code in codes.items():
                if code:
                    self._put(code, text)
        found = np.fromiter((codes[text] for text in flat), np.int64, len(flat))
        return found.reshape(texts.shape)

    def _put(self, code: int, text: str) -> None:
        known = self._find(code)
        _check(text if known is None else known, text)
        self._entries[code] = text, self._newest
        self._entries.move_to_end(code)

    def _find(self, code: int) -> str | None:
        if code in self._entries:
            return self._entries[code][0]
        pinned = self._pinned.get(code)
        return None if pinned is None else pinned.text

    def decode(self, codes: Array) -> npt.NDArray[np.object_]:
        """Return the texts of codes, i64 of any shape, as an array of str.

        Raises InputError for a code whose text is not in the table.
        """
        flat: list[int] = codes.ravel().tolist()
        wanted = dict.fromkeys(flat)
        with self._lock:
            texts = {code: self._find(code) if code else "" for code in wanted}
        if any(text is None for text in texts.values()):
            raise InputError("a text is asked for outside of the call that it belongs to")
        found = np.empty(len(flat), np.object_)
        found[:] = [texts[code] for code in flat]
        return found.reshape(codes.shape)


def _check(known: str, text: str) -> None:
    if known != text:
        raise InputError(
            f"the texts {_short(known)} and {_short(text)} have the same code: change one of them"
        )


def _short(text: str) -> str:
    return repr(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")


_LONGEST: Final = 60

TEXT_TABLE: Final = TextTable()
"""The table of this process."""
