"""Text to token ids and back, by what a model's file says of its vocabulary."""

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any

import tokenizers

from lamina.arguments import listed
from lamina.errors import FormatError, InputError
from lamina.frontend.control_spellings import ControlSpellings, Disguise
from lamina.frontend.shown import shown
from lamina.frontend.text_stream import TextStream
from lamina.frontend.tokenizer_backend import read_backend
from lamina.own_lock import OwnLock

if TYPE_CHECKING:
    from lamina.frontend.chat_template import ChatTemplate, Message


class Tokenizer(OwnLock):
    """A vocabulary, the rules by which text is cut, and the chat template that goes with them.

    Control tokens are those the file marks as such, `<|im_end|>` for one. Methods may be called
    from several threads.
    """

    bos_id: int | None
    """The beginning-of-sequence token, if the file names one."""
    eos_ids: frozenset[int]
    """Every token that ends a sequence."""
    vocab_size: int
    """One more than the largest token id; a model's logits may be padded beyond it."""
    backend: tokenizers.Tokenizer
    """The wrapped tokenizer, without padding, truncation and post-processing."""
    chat_template: str | None
    """The source of the template that comes with the model, as the file has it."""

    def __init__(
        self,
        backend: tokenizers.Tokenizer,
        *,
        bos_id: int | None = None,
        eos_ids: Iterable[int] = (),
        prefix: Sequence[int] = (),
        suffix: Sequence[int] = (),
        chat_template: str | None = None,
        template_tokens: tuple[str, str] = ("", ""),
        vocab_size: int | None = None,
    ) -> None:
        """Wrap `backend`; `prefix` and `suffix` are the ids that the file puts around a text.

        `template_tokens` are what the template knows as `bos_token` and `eos_token`; `vocab_size`
        is looked for in `backend` if it is not given.
        """
        super().__init__()
        self.backend = backend
        self.bos_id = bos_id
        self.eos_ids = frozenset(eos_ids)
        if vocab_size is None:
            vocab_size = 1 + max(backend.get_vocab().values(), default=-1)
        self.vocab_size = vocab_size
        self._prefix, self._suffix = list(prefix), list(suffix)
        self.chat_template = chat_template
        self._template_tokens = template_tokens
        added = backend.get_added_tokens_decoder()
        self._control = {token.content: n for n, token in added.items() if token.special}
        self._control_ids = frozenset(self._control.values())
        self._strips = {
            token.content: (token.lstrip, token.rstrip) for token in added.values() if token.special
        }

    def to_bytes(self) -> bytes:
        """Return all of the tokenizer as JSON, for `from_bytes`."""
        record = {
            "backend": self.backend.to_str(),
            "bos_id": self.bos_id,
            "eos_ids": sorted(self.eos_ids),
            "prefix": self._prefix,
            "suffix": self._suffix,
            "chat_template": self.chat_template,
            "template_tokens": self._template_tokens,
        }
        return json.dumps(record).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Tokenizer":
        """Return the tokenizer that gave `data`; `FormatError` if none did."""
        try:
            record: dict[str, Any] = json.loads(data)
            backend = read_backend(record.pop("backend").encode(), "the tokenizer")
            return cls(backend, **record)
        except Exception as error:
            # The backend raises plain Exception.
            raise FormatError(f"the tokenizer cannot be read: {error!r}") from None

    def encode(self, text: str, special: bool = True, add_bos: bool | None = None) -> list[int]:
        """Return the token ids of `text`.

        `special` says whether control tokens written in the text are parsed; otherwise they are
        plain text. By default the ids that the file asks for go around the text, and a beginning
        that is written already is not doubled; `add_bos` true asks for a beginning in any case,
        false for the bare text. What a vocabulary has no token for, not even an unknown one, is
        left out. Raises `InputError` for what is not text.
        """
        ids = self._bare(text, special)
        if add_bos is False:
            return ids
        prefix, suffix = self._prefix, self._suffix
        if add_bos and not prefix:
            if self.bos_id is None:
                raise InputError(
                    "add_bos is true, but the model has no beginning-of-sequence token"
                )
            prefix = [self.bos_id]
        return self._framed(ids, prefix, suffix)

    def decode(self, ids: Iterable[int], skip_special: bool = True) -> str:
        """Return the text of token ids; bytes that are no UTF-8 become U+FFFD.

        `skip_special` leaves control tokens out. Raises `InputError` for an id that is unknown.
        """
        return self.backend.decode(self.checked_ids(ids), skip_special_tokens=skip_special)

    def stream(self, skip_special: bool = True, after: Sequence[int] = ()) -> TextStream:
        """Return a decoder for ids that come one by one and go on from those of `after`."""
        return TextStream(self, skip_special, after)

    def is_control(self, token: int) -> bool:
        """Return whether a token is one that the file marks as control, not text."""
        return token in self._control_ids

    def apply_chat_template(
        self, messages: "Sequence[Message]", add_generation_prompt: bool = True
    ) -> str:
        """Return the messages as the model was taught to read them, as one text.

        In a text, control tokens that a user wrote look like the template's own: `encode_chat`
        tells them apart. Raises `InputError` if there is no template or it refuses the messages,
        and `FormatError` for a template that cannot be run.
        """
        return self._template.render(messages, add_generation_prompt)

    def encode_chat(
        self, messages: "Sequence[Message]", add_generation_prompt: bool = True
    ) -> list[int]:
        """Return the token ids of the messages, in which only the template writes control tokens.

        Whatever the messages spell stays plain text. There is at most one beginning-of-sequence
        token, the template's or the file's. Raises as `apply_chat_template`.
        """
        from lamina.frontend.chat_template import plain_messages

        disguise = Disguise(self._spellings, plain_messages(messages))
        text = self._template.render(disguise.messages, add_generation_prompt)
        if not disguise.is_worn_in(text):
            return self._framed(self._bare(text, True), self._prefix, [])
        ids = [token for part in self._parts(text, disguise) for token in part]
        return self._framed(ids, self._prefix, [])

    def checked_ids(self, ids: Iterable[int]) -> list[int]:
        """Return `ids` as a list of int; `InputError` unless each is in the vocabulary."""
        found: list[int] = []
        for token in listed(ids, "ids", "a list of token ids"):
            number = int(token) if isinstance(token, Integral) else -1
            if not 0 <= number < self.vocab_size:
                raise InputError(
                    f"{shown(token)} is not a token id: expected 0 to {self.vocab_size - 1}"
                )
            found.append(number)
        return found

    @cached_property
    def _template(self) -> "ChatTemplate":
        from lamina.frontend.chat_template import ChatTemplate

        if self.chat_template is None:
            raise InputError("the model has no chat template: give it the prompt as plain text")
        return ChatTemplate(self.chat_template, *self._template_tokens)

    @cached_property
    def _spellings(self) -> ControlSpellings:
        return ControlSpellings(filter(None, self._control))

    def _bare(self, text: str, special: bool) -> list[int]:
        # The backend's switch belongs to all its users, hence the lock.
        with self._lock:
            self.backend.encode_special_tokens = not special
            try:
                return self.backend.encode(text, add_special_tokens=False).ids
            except (TypeError, ValueError):
                raise InputError(_no_text(text)) from None

    def _framed(self, ids: list[int], prefix: list[int], suffix: list[int]) -> list[int]:
        begun = ids[: len(prefix)] == prefix
        ended = not suffix or ids[-len(suffix) :] == suffix
        return [*([] if begun else prefix), *ids, *([] if ended else suffix)]

    def _parts(self, text: str, disguise: Disguise) -> Iterator[list[int]]:
        """Yield the ids of the template's control tokens and of the plain text between them."""
        start, strip_left = 0, False
        for begin, end in [*self._spellings.find(text), (len(text), len(text))]:
            spelling = text[begin:end]
            lstrip, rstrip = self._strips.get(spelling, (False, False))
            plain = text[start:begin]
            plain = plain.lstrip() if strip_left else plain
            plain = plain.rstrip() if lstrip else plain
            yield self._bare(disguise.take_off(plain), False)
            yield [self._control[spelling]] if spelling else []
            start, strip_left = end, rstrip


def _no_text(given: object) -> str:
    """Say why `given` cannot be encoded."""
    said = f"{shown(given)} is not text that can be encoded"
    if not isinstance(given, str):
        return f"{said}: expected a str, got {type(given).__name__}"
    lone = next((ord(c) for c in given if 0xD800 <= ord(c) <= 0xDFFF), 0)
    # Where bytes that are no UTF-8 come as text, Python spells each so.
    if 0xDC80 <= lone <= 0xDCFF:
        return f"{said}: it has the byte 0x{lone - 0xDC00:02X}, which is not UTF-8"
    return f"{said}: it has U+{lone:04X}, which is no character" if lone else said
