"""Memory as threads address it: by the number of an element."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal, cast

import numpy as np
from numpy.lib.stride_tricks import as_strided
from xdsl.dialects.builtin import MemRefType, NoneAttr
from xdsl.ir import Attribute

from lamina.dialects.tile import AnyKernelOp
from lamina.errors import InputError
from lamina.targets.reference.dtypes import Array
from lamina.targets.reference.simt_races import Meeting, Races
from lamina.targets.reference.tile import poison

Verb = Literal["read", "write", "change"]
"""What is done to elements; to change one is to do so as a whole."""


@dataclass(frozen=True)
class Memory:
    """Elements from the first one of a memref to its last one, and who touches them.

    `holds` says which of them are the memref's, where not all are. Without `races` nobody writes.
    Memrefs that overlap share their `races`, which count in units: element i of this one is
    `unit` of them from `first + i * unit` on.
    """

    elements: Array
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    holds: Array | None = None
    races: Races | None = None
    first: int = 0
    unit: int = 1

    def outside(self, at: Array) -> Array:
        """Tell which of some numbers are those of no element."""
        beyond = (at < 0) | (at >= self.elements.size)
        if self.holds is not None and self.elements.size:
            beyond |= ~self.holds[np.where(beyond, 0, at)]
        return beyond

    def touch(
        self, at: Array, threads: Array, block: int, interval: int, verb: Verb
    ) -> Meeting | None:
        """Note an access, and return where in `at` two threads or blocks meet, if any do."""
        if self.races is None:
            return None
        units = at + self.first if self.unit == 1 else self._units(at)
        races = self.races
        note = {"read": races.read, "write": races.write, "change": races.change}[verb]
        meeting = note(units, threads.repeat(self.unit), block, interval)
        return meeting and meeting._replace(position=meeting.position // self.unit)

    def _units(self, at: Array) -> Array:
        return (self.first + at[:, None] * self.unit + np.arange(self.unit)).ravel()


def workgroup(type: MemRefType[Any]) -> Memory:
    """Return memory that the threads of one block share, which nobody has written."""
    shape = tuple(type.get_shape())
    elements = poison(type, (prod(shape),))
    return Memory(elements, shape, _row_major(shape), races=Races(elements.size, blocks=False))


def memories(kernel: AnyKernelOp, arrays: Sequence[Array]) -> list[Memory]:
    """Return the memory of each argument; InputError for strides that its type does not have."""
    flat = [
        _flat(f"argument {n} of kernel @{kernel.sym_name.data}", argument.type, array)
        for n, (argument, array) in enumerate(zip(kernel.memrefs, arrays, strict=True))
    ]
    found = list(flat)
    for group in _overlapping([memory.elements for memory in flat]):
        members = [flat[n].elements for n in group]
        if not any(each.flags.writeable for each in members):
            continue
        unit = min(each.itemsize for each in members)
        starts = [each.ctypes.data for each in members]
        start = min(starts)
        end = max(s + each.nbytes for s, each in zip(starts, members, strict=True))
        races = Races((end - start) // unit, blocks=True)
        for n, each, at in zip(group, members, starts, strict=True):
            first, size = (at - start) // unit, each.itemsize // unit
            found[n] = replace(flat[n], races=races, first=first, unit=size)
    return found


def _flat(name: str, type: Attribute, array: Array) -> Memory:
    rows = isinstance(cast("MemRefType[Any]", type).layout, NoneAttr)
    if rows and array.flags.c_contiguous:
        return Memory(array.reshape(-1), array.shape, _row_major(array.shape))
    strides = tuple(step // array.itemsize for step in array.strides)
    if rows or any(step < 0 or step % array.itemsize for step in array.strides):
        raise InputError(f"{name} is {type}, got the strides {strides}")
    last = sum((n - 1) * step for n, step in zip(array.shape, strides, strict=True))
    size = last + 1 if array.size else 0
    elements = as_strided(array, (size,), (array.itemsize,), writeable=array.flags.writeable)
    holds = np.zeros(size, np.bool_)
    if size:
        as_strided(holds, array.shape, strides)[...] = True
    return Memory(elements, array.shape, strides, holds)


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(shape[d + 1 :]) for d in range(len(shape)))


def _overlapping(arrays: Sequence[Array]) -> list[list[int]]:
    """Return the numbers of arrays in groups: those in different ones have no byte in common."""
    groups: list[list[int]] = []
    for n, array in enumerate(arrays):
        met = [g for g in groups if any(np.may_share_memory(array, arrays[m]) for m in g)]
        groups = [g for g in groups if g not in met]
        groups.append([*(m for g in met for m in g), n])
    return groups
