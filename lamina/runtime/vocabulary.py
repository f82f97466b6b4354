"""What generation has to know of a model's tokens."""

from dataclasses import dataclass
from numbers import Integral

from lamina.arguments import listed
from lamina.errors import InputError
from lamina.frontend.tokenizer import Tokenizer


@dataclass(frozen=True)
class Vocabulary:
    """The ids below `size` are tokens, any of `eos_ids` ends a sequence.

    `tokenizer` is None where a model has none: then it takes ids and gives ids.
    """

    size: int
    eos_ids: frozenset[int]
    tokenizer: Tokenizer | None = None

    def ids(self, prompt: object, name: str) -> list[int]:
        """Return the token ids of `prompt`, which is text or ids taken as they are.

        Raises `InputError`, saying `name`, for what is neither, has no token, or has an id that
        the model does not know.
        """
        if isinstance(prompt, str):
            found = self.text_tokenizer(name).encode(prompt)
        else:
            tokens = listed(prompt, name, "text or a list of token ids")
            found = [self._id(token, name) for token in tokens]
        if not found:
            raise InputError(f"{name} is empty: expected at least one token to go on from")
        return found

    def text_tokenizer(self, name: str) -> Tokenizer:
        """Return the tokenizer; `InputError` where there is none to handle `name`."""
        if self.tokenizer is None:
            raise InputError(f"{name} is text, but the model has no tokenizer: give token ids")
        return self.tokenizer

    def _id(self, token: object, name: str) -> int:
        number = int(token) if isinstance(token, Integral) else -1
        if 0 <= number < self.size and not isinstance(token, bool):
            return number
        raise InputError(f"{name} has {token!r}: expected token ids from 0 to {self.size - 1}")
