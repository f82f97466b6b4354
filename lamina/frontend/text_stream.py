"""Text as it comes, token by token."""

from typing import TYPE_CHECKING

from tokenizers.decoders import DecodeStream

if TYPE_CHECKING:
    from lamina.frontend.tokenizer import Tokenizer


class TextStream:
    """Turns token ids into pieces of text, none of which ends inside a character.

    All pieces and what `finish` returns are, in a row, exactly `decode` of all ids.
    """

    def __init__(self, tokenizer: "Tokenizer", skip_special: bool = True) -> None:
        """Start a text of its own; `skip_special` leaves control tokens out."""
        self._tokenizer = tokenizer
        self._skip_special = skip_special
        self._stream = DecodeStream(skip_special_tokens=skip_special)
        self._ids: list[int] = []
        self._shown = 0

    def push(self, token: int) -> str:
        """Return the text that `token` completes, often empty; `InputError` for an unknown id."""
        self._ids += self._tokenizer.checked_ids([token])
        piece = self._stream.step(self._tokenizer.backend, self._ids[-1]) or ""
        self._shown += len(piece)
        return piece

    def finish(self) -> str:
        """Return the text still held: bytes that never became a character, as U+FFFD."""
        rest = self._tokenizer.decode(self._ids, self._skip_special)[self._shown :]
        self._shown += len(rest)
        return rest
