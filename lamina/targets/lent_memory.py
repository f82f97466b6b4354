"""Memory that is lent with the arrays of a call, and serves again once they are dropped."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, Final

import numpy as np

from lamina.targets.memory import ALIGNMENT, Array, empty

_MOST_KEPT: Final = 4
_MOST_SIZES: Final = 4
_MOST_BYTES: Final = 16 << 20
"""What is kept of a size for calls to come: fresh memory costs a fault for each of its pages."""

_BYTE: Final = np.dtype(np.uint8)

Block = tuple[Array, int]
"""Bytes, and their address."""


class _Lent:
    """A block for as long as an array looks into it.

    It is no array of NumPy, which would let views keep what is behind it alive in its stead.
    """

    block: Block = np.empty(0, np.uint8), 0
    # An interrupt may come before it has a home.
    home: deque[Block] = deque(maxlen=0)

    def __del__(self) -> None:
        self.home.append(self.block)


@lru_cache(maxsize=64)
def _lent_type(size: int) -> Any:
    return type(f"_Lent{size}", (_Lent, ctypes.c_char * size), {})


class LentMemory:
    """Lends 64-byte aligned arrays, contents undefined, of one shape after another.

    An array's memory is lent again when nothing looks into it any more, in whichever thread that
    comes to be. Shapes of about equal sizes share theirs, and those of the last few sizes is kept.
    """

    def __init__(self) -> None:
        """Take no memory yet."""
        # No lock guards what waits to be lent, as it may come back wherever an array is dropped.
        self._free: dict[int, deque[Block]] = {}

    @property
    def kept(self) -> int:
        """How many blocks wait to be lent."""
        return sum(map(len, self._free.values()))

    def lend(self, shape: Sequence[int], dtype: np.dtype[Any]) -> tuple[Array, int]:
        """Return an array and its address; InputError if there is no memory."""
        size = _rounded(dtype.itemsize * prod(shape))
        home = self._free.get(size)
        if home is None:
            home = self._begin(size)
        try:
            block, address = home.pop()
        except IndexError:
            block = empty((size,), _BYTE)
            address = block.ctypes.data
        lent: Any = _lent_type(size).from_address(address)
        lent.block, lent.home = (block, address), home
        return np.ndarray(shape, dtype, lent), address

    def _begin(self, size: int) -> deque[Block]:
        if len(self._free) == _MOST_SIZES:
            del self._free[next(iter(self._free))]
        self._free[size] = deque[Block](maxlen=min(_MOST_KEPT, _MOST_BYTES // size))
        return self._free[size]


def _rounded(size: int) -> int:
    """Return a number of bytes from `size` up, of which a quarter is to spare at most."""
    if size <= ALIGNMENT:
        return ALIGNMENT
    step = 1 << max(size.bit_length() - 3, 0)
    return -(-size // step) * step
