"""Text as it comes, token by token."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from lamina.frontend.tokenizer import Tokenizer

_BROKEN: Final = "\ufffd"
_BYTE: Final = re.compile(r"<0x[0-9A-F]{2}>")
"""A token that spells a byte; what a run of them means is known at its end."""
_CONTEXT: Final = 8
"""Tokens before a continuation that say how it begins."""


class TextStream:
    """Turns token ids into pieces of text, none of which ends inside a character.

    All pieces and what `finish` returns are, in a row, exactly what `decode` of all ids adds to
    the text before them.
    """

    def __init__(
        self, tokenizer: "Tokenizer", skip_special: bool = True, after: Sequence[int] = ()
    ) -> None:
        """Go on from the text of the ids `after`; `skip_special` leaves control tokens out.

        A text of its own begins where there is none, or at a control token: there the blank that
        some vocabularies put before a text is not part of it.
        """
        self._tokenizer = tokenizer
        self._skip_special = skip_special
        self._ids = self._context(after)
        self._text = self._decoded(self._ids)
        if self._text.endswith(_BROKEN):
            self._ids, self._text = [], ""
        self._known = len(self._ids)

    def push(self, token: int) -> str:
        """Return the text that `token` completes, often empty; `InputError` for an unknown id."""
        (known,) = self._tokenizer.checked_ids([token])
        if self._skip_special and self._tokenizer.is_control(known):
            # Bytes before and after it are one run.
            return ""
        self._ids.append(known)
        if self._spells_byte(known):
            return ""
        text = self._decoded(self._ids)
        return "" if text.endswith(_BROKEN) else self._advanced(text)

    def finish(self) -> str:
        """Return the text still held: bytes that never became a character, as U+FFFD."""
        return self._advanced(self._decoded(self._ids))

    def _advanced(self, text: str) -> str:
        """Return what `text`, that of the tokens in view, adds to what was shown of them."""
        piece = text[len(self._text) :]
        if piece:
            # The tokens shown last stay in view, since decoding looks at neighbours.
            self._ids = self._ids[self._known :]
            self._known, self._text = len(self._ids), self._decoded(self._ids)
        return piece

    def _decoded(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(ids, self._skip_special)

    def _spells_byte(self, token: int) -> bool:
        return bool(_BYTE.fullmatch(self._tokenizer.backend.id_to_token(token) or ""))

    def _context(self, after: Sequence[int]) -> list[int]:
        """Return the last few ids of a text to go on from, no run of bytes cut."""
        known: list[int] = []
        for token in reversed(after):
            enough = len(known) >= _CONTEXT and not self._spells_byte(known[-1])
            unknown = not 0 <= token < self._tokenizer.vocab_size
            if enough or unknown or self._tokenizer.is_control(token):
                break
            known.append(token)
        return known[::-1]
