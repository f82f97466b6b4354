"""How much of a prompt one step takes."""

from typing import Final

from lamina.arguments import whole_number

_FIRST: Final = 32
_LEAST: Final = 8
_MOST: Final = 128
_LARGEST: Final = 2**31 - 1
_SECONDS: Final = 0.35
"""What a step of prompt tokens may take, so that an interrupt is answered within half a second."""


class ChunkSize:
    """The most prompt tokens of a step: a given number, or what keeps steps short.

    Chunks change no result, only how long a step takes. The size follows the speed of the steps
    seen, from 8 to 128 tokens.
    """

    def __init__(self, fixed: int | None = None) -> None:
        """Always allow `fixed` tokens, if given; `InputError` unless it is at least 1."""
        self._fixed = None if fixed is None else whole_number(fixed, "chunk_tokens", 1, _LARGEST)
        self._size = _FIRST

    @property
    def tokens(self) -> int:
        """The most prompt tokens that the next step may take."""
        return self._size if self._fixed is None else self._fixed

    def took(self, tokens: int, seconds: float) -> None:
        """Note that a step of `tokens` tokens took `seconds`."""
        if tokens >= _LEAST:
            allowed = int(tokens * _SECONDS / max(seconds, 1e-9)) // _LEAST * _LEAST
            self._size = max(_LEAST, min(_MOST, allowed))
