"""Read and write memory for threads, in the space that an instruction names or an address means."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from lamina.targets.reference.dtypes import Array
from lamina.testing.ptx.layout import LOCAL_WINDOW, SHARED_WINDOW, WINDOW
from lamina.testing.ptx.memory import index

if TYPE_CHECKING:
    from lamina.testing.ptx.shared import Trouble
    from lamina.testing.ptx.threads import Threads

SPACES = ("global", "shared", "local", "const", "param")


def space_of(modifiers: tuple[str, ...]) -> str:
    """Return the space that an instruction names, or "" for generic addresses."""
    for word in modifiers:
        if word.split("::")[0] in SPACES:
            return word.split("::")[0]
    return ""


def gather(t: Threads, space: str, who: Array, addresses: Array, unit: int, count: int) -> Array:
    """Return, for each thread, `count` integers of `unit` bytes at its address.

    Raises `KernelFault` for what is outside, misaligned, or a race.
    """
    _aligned(t, who, addresses, unit * count)
    found: Array = np.empty((len(who), count), f"u{unit}")
    for part, where, near in _by_space(space, addresses):
        found[part] = _LOAD[where](t, who[part], near, unit, count)
    return found


def scatter(t: Threads, space: str, who: Array, addresses: Array, values: Array) -> None:
    """Store, for each thread, a row of integers at its address. Raises `KernelFault`."""
    unit, count = values.dtype.itemsize, values.shape[1]
    _aligned(t, who, addresses, unit * count)
    for part, where, near in _by_space(space, addresses):
        rows, at = place(t, where, who[part], near, unit, count, write=True)
        if where == "global" and t.neighbours is not None:
            changed = (rows[at] != values[part]).any(axis=1)
            blocks = t.first + t.block_of(who[part])
            trouble = t.neighbours.write(blocks, near, unit * count, changed)
            _raise_between(t, trouble, who[part], near)
        rows[at] = values[part]
        lost = (rows[at] != values[part]).any(axis=1)
        if lost.any():
            number = int(who[part][int(lost.argmax())])
            what = f"two threads store different values to {int(near[lost.argmax()]):#x} at once"
            raise t.fault("conflict", what, number)


def place(
    t: Threads,
    space: str,
    who: Array,
    addresses: Array,
    unit: int,
    count: int,
    *,
    write: bool = False,
    atomic: bool = False,
) -> tuple[Array, Array]:
    """Return memory as rows, and the row of each thread, after checking and noting the access."""
    size = unit * count
    if space == "global":
        wrong = t.memory.outside(addresses, size)
        if wrong is not None:
            address = int(addresses[wrong])
            what = f"{size} bytes at address {address:#x} {t.memory.describe(address)}"
            raise t.fault("bounds", what, int(who[wrong]))
        if t.traffic is not None:
            t.traffic.note_memory(t.line, who, addresses, size)
        if t.neighbours is not None and not write:
            trouble = t.neighbours.read(t.first + t.block_of(who), addresses, size)
            _raise_between(t, trouble, who, addresses)
        return t.memory.rows(unit, count), index(addresses, size)
    if space == "shared":
        places = shared_places(t, who, addresses, size)
        if t.traffic is not None:
            t.traffic.note_shared(t.line, who, addresses, size)
        if write:
            trouble = t.shared.write(who, places, size, atomic=atomic)
        else:
            trouble = t.shared.read(who, places, size)
        t.raise_for(trouble, who, addresses)
        return t.shared.rows(unit, count), places // size
    wrong_local = (addresses < 0) | (addresses + size > t.program.local_size)
    if wrong_local.any():
        number = int(wrong_local.argmax())
        what = f"{size} bytes at local address {int(addresses[number]):#x} are outside"
        raise t.fault("bounds", what, int(who[number]))
    local = who * t.program.local_size + addresses
    return t.local.view(f"u{unit}").reshape(-1, count), local // size


def _raise_between(t: Threads, trouble: Trouble | None, who: Array, addresses: Array) -> None:
    if trouble is not None:
        address = int(addresses[trouble.at])
        allocation = t.memory.find(address)
        name = allocation.name if allocation else "nothing"
        what = f"address {address:#x} in {name}: {trouble.what}"
        raise t.fault(trouble.kind, what, int(who[trouble.at]))


def shared_places(t: Threads, who: Array, addresses: Array, size: int) -> Array:
    """Return where in the memory of all blocks shared addresses lie. Raises `KernelFault`."""
    wrong = t.shared.outside(addresses, size)
    if wrong is not None:
        address = int(addresses[wrong])
        name = t.program.shared_name(address)
        what = f"{size} bytes at shared address {address:#x} ({name}) are outside"
        raise t.fault("bounds", what, int(who[wrong]))
    return t.block_of(who) * t.shared.stride + addresses


def _aligned(t: Threads, who: Array, addresses: Array, size: int) -> None:
    wrong = addresses % size != 0
    if wrong.any():
        at = int(wrong.argmax())
        what = f"an access of {size} bytes at address {int(addresses[at]):#x} is misaligned"
        raise t.fault("alignment", what, int(who[at]))


def _load_from(space: str) -> Callable[..., Array]:
    def load(t: Threads, who: Array, addresses: Array, unit: int, count: int) -> Array:
        rows, at = place(t, space, who, addresses, unit, count)
        return rows[at]

    return load


_LOAD = {space: _load_from(space) for space in ("global", "shared", "local")}


def _by_space(space: str, addresses: Array) -> Iterator[tuple[Array | slice, str, Array]]:
    """Split accesses by where they go; yield which they are, the space and the address in it."""
    if space in ("global", "const"):
        yield slice(None), "global", addresses
        return
    if space in ("shared", "local"):
        yield slice(None), space, addresses
        return
    windows = (
        [("local", 0)] if space == "param" else [("shared", SHARED_WINDOW), ("local", LOCAL_WINDOW)]
    )
    left = np.ones(len(addresses), np.bool_)
    for name, start in windows:
        inside = (addresses >= start) & (addresses < start + WINDOW)
        if inside.all():
            yield slice(None), name, addresses - start
            return
        if inside.any():
            yield np.flatnonzero(inside), name, addresses[inside] - start
            left &= ~inside
    if left.all():
        yield slice(None), "global", addresses
    elif left.any():
        yield np.flatnonzero(left), "global", addresses[left]
