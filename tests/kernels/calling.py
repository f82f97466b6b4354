"""How a kernel takes its arguments, and what lies behind the memory that it may write."""

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, NoneAttr, StridedLayoutAttr

from lamina.dialects.tile import KernelOp

GUARD, POISON, LINE = 64, 0x5A, 64


def words(
    kernel: KernelOp,
    memrefs: Sequence[np.ndarray],
    symbols: Mapping[str, int],
    addresses: Sequence[int],
) -> np.ndarray:
    """Return a kernel's arguments as its calling convention has them."""
    found: list[int] = []
    for arg, array, address in zip(kernel.memrefs, memrefs, addresses, strict=True):
        extents, layout = arg.type.get_shape(), arg.type.layout
        found.append(address)
        found += [n for e, n in zip(extents, array.shape, strict=True) if e == DYNAMIC_INDEX]
        if isinstance(layout, StridedLayoutAttr):
            strides = zip(layout.strides, array.strides, strict=True)
            found += [n // array.itemsize for s, n in strides if isinstance(s, NoneAttr)]
        else:
            assert array.flags.c_contiguous
    return np.array(found + [symbols[s.data] for s in kernel.symbols], np.int64)
