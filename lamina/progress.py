"""How far long work has come, told to whoever asked to hear of it."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

Listener = Callable[[str, int, int], None]
"""Called with what is being done, how much of it is done, and how much there is."""

_LISTENER: Final = ContextVar[Listener | None]("lamina.progress", default=None)


def report(work: str, done: int, total: int) -> None:
    """Tell the listener of this context, if there is one."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(work, done, total)


@contextmanager
def listening(listener: Listener) -> Generator[None]:
    """Let `listener` hear of what is done inside; a listener of before hears nothing meanwhile."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)
