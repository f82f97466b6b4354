"""Fewer searches for garbage while much is built that stays."""

import atexit
import gc
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

_YOUNG: Final = 100_000
"""New objects after which the collector looks at them; a module has some hundred thousand."""

_lock: Final = threading.Lock()
_former: list[tuple[int, int, int]] = []


@contextmanager
def rarely_collecting() -> Generator[None]:
    """Have garbage collected seldom inside; the first to enter and the last to leave set it."""
    with _lock:
        _former.append(gc.get_threshold())
        _set_rare()
    try:
        yield
    finally:
        with _lock:
            former = _former.pop()
            if not _former:
                gc.set_threshold(*former)


def collect_rarely() -> None:
    """Have garbage collected seldom from now on, and not at the end of the process."""
    _set_rare()
    # The system takes all memory back at once; the interpreter would look through it first.
    atexit.register(gc.freeze)


def _set_rare() -> None:
    young, *older = gc.get_threshold()
    # A collector that was turned off, or works yet more seldom, is left as it is.
    if 0 < young < _YOUNG:
        gc.set_threshold(_YOUNG, *older)
