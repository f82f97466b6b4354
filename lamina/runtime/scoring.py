"""The logits after every token of a text."""

from collections.abc import Sequence
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from lamina.errors import InputError
from lamina.runtime.batch import Part
from lamina.runtime.session import Session
from lamina.targets.base import Array


def token_logits(session: Session, tokens: Sequence[int]) -> NDArray[np.float32]:
    """Return the logits after each of `tokens`, float32 [n, vocabulary].

    Raises `InputError` if the cache has no room for so many tokens now.
    """
    found = np.empty((len(tokens), session.vocabulary), np.float32)
    owner = session.pages.new_owner()
    try:
        pages = session.pages.take(owner, session.pages_for(len(tokens)))
        if pages is None:
            raise InputError(
                f"{len(tokens)} tokens need {session.pages_for(len(tokens))} pages, but "
                f"{session.pages.free} of {session.pages.count} are free: end other calls first"
            )
        start = 0
        while start < len(tokens):
            part = tokens[start : start + session.chunk.tokens]
            rows = found[start : start + len(part)]
            started = perf_counter()
            session.step([Part(part, start, pages, len(part))], lambda y, to=rows: _copy(y, to))
            session.chunk.took(len(part), perf_counter() - started)
            start += len(part)
        return found
    finally:
        session.pages.give_back([owner])


def _copy(logits: Array, to: Array) -> None:
    to[:] = logits
