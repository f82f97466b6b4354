"""Memory for native code: aligned, private to the process, on huge pages where there are some."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from lamina import knobs
from lamina.errors import InputError
from lamina.targets.base import NUMPY
from lamina.targets.memory_limit import check_memory, memory_limit

Array = npt.NDArray[Any]

ALIGNMENT: Final = 64
"""Bytes to which everything that a kernel is given is aligned."""

_HUGE_PAGE: Final = 2 << 20
_SMALL: Final = 64 << 10
_SHARE: Final = 4
"""The part of the memory that a copy may take is one in this many."""

_OFFER: Final = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def element_dtype(element: str) -> np.dtype[Any]:
    """Return the NumPy dtype of an element type of the IR, such as `f32`."""
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16 if element == "bf16" else NUMPY[element])


def allocate(size: int) -> Array:
    """Return `size` zero bytes, 64-byte aligned; InputError if the system has not that many.

    Large blocks are mapped by themselves, so that they go back to the system when dropped; the
    mapping is private, so that a forked child has its own.
    """
    check_memory("a call", size)
    if size < _SMALL or not hasattr(mmap, "MAP_PRIVATE"):
        block = np.zeros(size + ALIGNMENT, np.uint8)
        start = -block.ctypes.data % ALIGNMENT
        return block[start : start + size]
    slack = _HUGE_PAGE if size >= _HUGE_PAGE else 0
    try:
        mapping = mmap.mmap(-1, size + slack, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError, ValueError):
        raise InputError(f"there is no memory for {size} bytes: use smaller inputs") from None
    if slack and hasattr(mmap, "MADV_HUGEPAGE"):
        # A kernel without huge pages refuses the advice, and small ones do.
        try:
            mapping.madvise(mmap.MADV_HUGEPAGE)
        except OSError:
            slack = _HUGE_PAGE
    whole = np.frombuffer(mapping, np.uint8)
    start = -whole.ctypes.data % _HUGE_PAGE if slack else 0
    return whole[start : start + size]


def reads_into_huge_pages(size: int) -> bool:
    """Tell whether `size` bytes of a file are read into huge pages, and not mapped.

    Where the knob leaves it open, a mapping's small pages are put up with for what is large beside
    the memory: a copy takes memory that processes do not share and the system cannot drop.
    """
    chosen = knobs.huge_pages_enabled()
    if chosen is not None:
        return chosen
    return _HUGE_PAGE <= size <= memory_limit() // _SHARE and _huge_pages_offered()


@cache
def _huge_pages_offered() -> bool:
    try:
        return "[never]" not in _OFFER.read_text(encoding="ascii")
    except OSError:
        return False


def empty(shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Return a 64-byte aligned array, contents undefined."""
    size = dtype.itemsize * prod(shape)
    if size >= _SMALL:
        return allocate(size).view(dtype).reshape(shape)
    block = np.empty(size + ALIGNMENT, np.uint8)
    start = -block.ctypes.data % ALIGNMENT
    return block[start : start + size].view(dtype).reshape(shape)


def aligned(array: Array) -> bool:
    """Tell whether native code can use the array as it is: in row order and aligned."""
    return array.flags.c_contiguous and array.ctypes.data % ALIGNMENT == 0


class Arena:
    """One growing block of memory; growing loses the contents unless told otherwise."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._take(allocate(0))

    def array(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        """Return an array at the block's start, which grows to hold it."""
        size = dtype.itemsize * prod(shape)
        self.reserve(size)
        return self.block[:size].view(dtype).reshape(shape)

    def reserve(self, size: int, *, keep: bool = False) -> None:
        """Make room for `size` bytes; `keep` carries the contents over."""
        if size <= self.block.nbytes:
            return
        former = self.block
        if not keep:
            # Before the new block is mapped, so that the two are never held at once.
            self._take(former[:0].copy())
            del former
            self._take(allocate(size))
            return
        self._take(allocate(size))
        self.block[: former.nbytes] = former

    def _take(self, block: Array) -> None:
        self.block = block
        self.address: int = block.ctypes.data
        """Where the block begins."""
