"""Texts as elements of tensors: each is a number, its code, which depends on it alone."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

TEXTS: Final = "lamina.texts"
"""The attribute of `@forward` that lists the texts of its constants; there are none without it."""

ELEMENTS: Final = "nn.elements"
"""The attribute of an input or an output that says what its numbers stand for."""

TEXT: Final = "text"
"""What `ELEMENTS` says where they are codes of texts."""

_BYTES: Final = 8


def code_of(text: str) -> int:
    """Return the code of a text, a signed number of 64 bits: 0 of the empty one, and of no other.

    It is the beginning of the BLAKE2b digest of its UTF-8.
    """
    if not text:
        return 0
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_BYTES).digest()
    return int.from_bytes(digest, "little", signed=True) or 1
