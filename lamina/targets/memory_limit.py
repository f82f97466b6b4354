"""How much memory this machine has, so that nothing larger is ever asked of it.

Some systems grant any size and end the process once the memory is written to.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Final

from lamina.errors import InputError

_UNKNOWN: Final = 2**47
"""The bytes that a process can address, for systems that do not say what they have."""


@cache
def memory_limit() -> int:
    """Return the bytes of memory of this machine."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return _UNKNOWN


def check_memory(what: str, size: int) -> None:
    """Raise `InputError` where `what` needs more bytes, `size`, than this machine has."""
    if size > (limit := memory_limit()):
        raise InputError(
            f"there is no memory for {what}, {size} bytes: this machine has {limit}, so use "
            "smaller inputs"
        )
