"""The memory of the page pools."""

import math
from collections.abc import Sequence
from typing import Final

import ml_dtypes
import numpy as np

from lamina.errors import InputError
from lamina.targets.base import NUMPY, Array, Binding
from lamina.targets.memory_limit import check_memory

PAGES: Final = "pages"
"""The symbol that counts the pages of every pool."""

_ALIGNMENT: Final = 64
_DTYPES: Final = {**NUMPY, "bf16": ml_dtypes.bfloat16}


def positions_of(pool: Binding) -> int:
    """Return the positions in a page of `pool`.

    A pool is [pages, heads, page, dim], or [pages, heads, page / n, dim, n] with n positions side
    by side. Raises `InputError` for a state that is neither.
    """
    sizes = [dim.constant for dim in pool.dims[1:]]
    if str(pool.dims[0]) == PAGES and None not in sizes and len(sizes) in (3, 4):
        return (sizes[1] or 0) * (sizes[3] or 0 if len(sizes) == 4 else 1)
    shape = ", ".join(map(str, pool.dims))
    raise InputError(f"the state {pool.name!r} is [{shape}]: expected a pool of pages")


def check_pools(pools: Sequence[Binding], pages: int) -> None:
    """Raise `InputError` where the system cannot have pools of `pages` pages."""
    size = sum(_room(_size(pool, pages)) for pool in pools)
    try:
        check_memory("pools", size)
    except InputError:
        raise _refusal(size, pages) from None


def allocate_pools(pools: Sequence[Binding], pages: int) -> dict[str, Array]:
    """Return zeroed pools of `pages` pages by name, 64-byte aligned, of one block of memory.

    `InputError` if the system has not that much.
    """
    check_pools(pools, pages)
    sizes = [_size(pool, pages) for pool in pools]
    total = sum(map(_room, sizes))
    try:
        block = np.zeros(total + _ALIGNMENT, np.uint8)
    except (MemoryError, ValueError):
        raise _refusal(total, pages) from None
    start, found = -block.ctypes.data % _ALIGNMENT, dict[str, Array]()
    for pool, size in zip(pools, sizes, strict=True):
        array = block[start : start + size].view(_DTYPES[pool.dtype])
        found[pool.name] = array.reshape(_shape(pool, pages))
        start += _room(size)
    return found


def _shape(pool: Binding, pages: int) -> tuple[int, ...]:
    return tuple(dim.evaluate({PAGES: pages}) for dim in pool.dims)


def _size(pool: Binding, pages: int) -> int:
    return math.prod(_shape(pool, pages)) * np.dtype(_DTYPES[pool.dtype]).itemsize


def _room(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _refusal(size: int, pages: int) -> InputError:
    return InputError(
        f"there is no memory for {pages} pages of keys and values, {size / 1e6:.0f} MB: "
        "lower cache_tokens"
    )
