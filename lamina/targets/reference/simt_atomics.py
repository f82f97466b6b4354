"""Changes of elements as a whole: threads take turns, in ascending order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lamina.dialects import simt
from lamina.targets.reference.dtypes import Array
from lamina.targets.reference.thread_block import ThreadBlock

_UPDATES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda old, v, expected: old + v,
    "max": lambda old, v, expected: max(old, v),
    "min": lambda old, v, expected: min(old, v),
    "and": lambda old, v, expected: old & v,
    "or": lambda old, v, expected: old | v,
    "xor": lambda old, v, expected: old ^ v,
    "exchange": lambda old, v, expected: v,
    "compare_exchange": lambda old, v, expected: v if old == expected else old,
}
"""What an element becomes."""


def atomic(run: ThreadBlock, op: simt.AtomicOp, args: tuple[Any, ...]) -> tuple[Any]:
    """Change elements one after the other, thread by thread; LaminaError as for a store."""
    value, memory, at, *rest = args
    if not memory.elements.flags.writeable:
        raise run.error(op, "it changes a memref whose access is read")
    shape = (len(run.threads), *np.shape(at)[1:])
    expected = rest.pop(0) if op.expected is not None else value
    kept = np.broadcast_to(rest[0] if rest else True, shape)
    old = np.zeros(shape, memory.elements.dtype)
    if not kept.any():
        return (old,)
    places = np.broadcast_to(at, shape)[kept]
    run.touch(op, memory, places, threads_of(run, shape)[kept.reshape(-1)], "change")
    values, wanted = (np.broadcast_to(x, shape)[kept] for x in (value, expected))
    before = old[kept]
    update = _UPDATES[op.kind.data]
    for n, place in enumerate(places):
        before[n] = memory.elements[place]
        memory.elements[place] = update(before[n], values[n], wanted[n])
    old[kept] = before
    return (old,)


def threads_of(run: ThreadBlock, shape: tuple[int, ...]) -> Array:
    """Return the thread of each element of an array of this shape, row by row."""
    rows = run.threads if shape and shape[0] == len(run.threads) else run.threads[:1]
    return rows.repeat(int(np.prod(shape[1:])))
