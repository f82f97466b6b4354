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
"""Tokens before a continuation that say how it begins; a character is at most four of them."""


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
        self._ids += self._tokenizer.checked_ids([token])
        if _BYTE.fullmatch(self._tokenizer.backend.id_to_token(self._ids[-1]) or ""):
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

    def _context(self, after: Sequence[int]) -> list[int]:
        """Return the last few ids of a text to go on from."""
        known: list[int] = []
        for token in reversed(after[-_CONTEXT:]):
            if self._tokenizer.is_control(token) or not 0 <= token < self._tokenizer.vocab_size:
                break
            known.insert(0, token)
        return known
