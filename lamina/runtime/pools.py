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


def allocate_pools(pools: Sequence[Binding], pages: int) -> dict[str, Array]:
    """Return zeroed pools of `pages` pages by name, 64-byte aligned, of one block of memory.

    `InputError` if the system has not that much.
    """
    shapes = [tuple(dim.evaluate({PAGES: pages}) for dim in pool.dims) for pool in pools]
    dtypes = [np.dtype(_DTYPES[pool.dtype]) for pool in pools]
    sizes = [math.prod(shape) * dtype.itemsize for shape, dtype in zip(shapes, dtypes, strict=True)]
    rooms = [-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes]
    try:
        check_memory("pools", sum(rooms))
        block = np.zeros(sum(rooms) + _ALIGNMENT, np.uint8)
    except (InputError, MemoryError, ValueError):
        raise InputError(
            f"there is no memory for {pages} pages of keys and values, {sum(sizes) / 1e6:.0f} MB: "
            "lower cache_tokens"
        ) from None
    start, found = -block.ctypes.data % _ALIGNMENT, dict[str, Array]()
    for pool, shape, dtype, size, room in zip(pools, shapes, dtypes, sizes, rooms, strict=True):
        found[pool.name] = block[start : start + size].view(dtype).reshape(shape)
        start += room
    return found
