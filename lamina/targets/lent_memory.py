"""Memory that is lent with the arrays of a call, and serves again once they are dropped."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, Final

import numpy as np

from lamina.targets.memory import Array, empty

_MOST_KEPT: Final = 4
_MOST_BYTES: Final = 32 << 20
"""What is kept for calls to come, at most: fresh memory costs a fault for each of its pages."""

_BYTE: Final = np.dtype(np.uint8)

Block = tuple[Array, int]
"""Bytes, and their address."""


class _Lent:
    """A block for as long as an array looks into it.

    It is no array of NumPy, which would let views keep what is behind it alive in its stead.
    """

    block: Block
    home: deque[Block]

    def __del__(self) -> None:
        self.home.append(self.block)


@lru_cache(maxsize=64)
def _lent_type(size: int) -> Any:
    return type(f"_Lent{size}", (_Lent, ctypes.c_char * size), {})


class LentMemory:
    """Lends arrays of one shape and dtype, contents undefined, 64-byte aligned.

    An array's memory is lent again when nothing looks into it any more, in whichever thread that
    comes to be.
    """

    def __init__(self, shape: Sequence[int], dtype: np.dtype[Any]) -> None:
        """Take no memory yet."""
        self.shape, self.dtype = tuple(shape), dtype
        self._size = dtype.itemsize * prod(shape)
        self._type = _lent_type(self._size)
        # Its methods take no lock, as they may run wherever an array is dropped.
        self._free = deque[Block](maxlen=min(_MOST_KEPT, _MOST_BYTES // max(self._size, 1)))

    @property
    def kept(self) -> int:
        """How many blocks wait to be lent."""
        return len(self._free)

    def lend(self) -> tuple[Array, int]:
        """Return an array and its address; InputError if there is no memory."""
        try:
            block, address = self._free.pop()
        except IndexError:
            block = empty((max(self._size, 1),), _BYTE)
            address = block.ctypes.data
        lent: Any = self._type.from_address(address)
        lent.home, lent.block = self._free, (block, address)
        return np.ndarray(self.shape, self.dtype, lent), address
