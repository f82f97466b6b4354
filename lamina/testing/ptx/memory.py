"""The memory of a device: one range of addresses, with allocations that have gaps between them."""

from __future__ import annotations

import mmap
import sys
from bisect import bisect_right, insort
from dataclasses import dataclass
from typing import Any

import numpy as np

from lamina.errors import InputError
from lamina.targets.reference.dtypes import Array

BASE = 0x7F00_0000_0000
"""The address of the first byte."""

ALIGNMENT = 256
GAP = 64 << 10
"""Bytes between allocations, so that an index that is a little too large hits nothing."""

_RESERVED = 1 << 36
_NO_RESERVE = 0x4000 if sys.platform == "linux" else 0


class MemoryFull(InputError):
    """An allocation does not fit any more."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """A range of addresses and what it is called."""

    address: int
    size: int
    name: str

    @property
    def end(self) -> int:
        """The address after its last byte."""
        return self.address + self.size


class Memory:
    """Bytes at `BASE` and above; fresh ones hold `poison`, and freed addresses come back late."""

    def __init__(self, capacity: int, poison: int) -> None:
        self.capacity = capacity
        self.used = 0
        self._poison = poison
        self._map = _reserve(capacity)
        self._reserved = len(self._map)
        self._bytes: Array = np.frombuffer(self._map, np.uint8)
        self._views: dict[tuple[int, int], Array] = {}
        self._starts: list[int] = []
        self._allocations: dict[int, Allocation] = {}
        self._cursor = BASE

    def alloc(self, size: int, name: str = "") -> int:
        """Return the address of `size` new bytes. Raises `MemoryFull`, naming what is missing."""
        if size > self.capacity - self.used:
            raise MemoryFull(
                f"{size} bytes do not fit: {self.capacity - self.used} of {self.capacity} are free,"
                f" {size - self.capacity + self.used} are missing"
            )
        address = self._place(size)
        allocation = Allocation(address, size, name or f"allocation {len(self._allocations)}")
        self._allocations[address] = allocation
        insort(self._starts, address)
        self.used += size
        self._slice(address, size)[:] = self._poison
        return address

    def _place(self, size: int) -> int:
        step = -(-(size + GAP) // ALIGNMENT) * ALIGNMENT
        for start in (self._cursor, BASE):
            address = start
            for allocation in (self._allocations[at] for at in self._starts):
                if allocation.end + GAP <= address:
                    continue
                if allocation.address >= address + step:
                    break
                address = -(-(allocation.end + GAP) // ALIGNMENT) * ALIGNMENT
            if address + step <= BASE + self._reserved:
                self._cursor = address + step
                return address
        raise MemoryFull(f"there is no gap of {size} bytes among the allocations")

    def free(self, address: int) -> None:
        """Give an allocation back. Raises `InputError` if none begins at `address`."""
        allocation = self._allocations.pop(address, None)
        if allocation is None:
            raise InputError(f"no allocation begins at {address:#x}")
        self._starts.remove(address)
        self.used -= allocation.size
        first = -(-(address - BASE) // mmap.PAGESIZE) * mmap.PAGESIZE
        last = (allocation.end - BASE) // mmap.PAGESIZE * mmap.PAGESIZE
        if last > first:
            self._map.madvise(mmap.MADV_DONTNEED, first, last - first)

    def find(self, address: int) -> Allocation | None:
        """Return the allocation that holds `address`, or else the last one that begins below."""
        at = bisect_right(self._starts, address)
        return self._allocations[self._starts[at - 1]] if at else None

    def view(self, address: int, size: int) -> Array:
        """Return bytes of one allocation, to read and to write. Raises `InputError` outside."""
        allocation = self.find(address)
        if allocation is None or size < 0 or address + size > allocation.end:
            raise InputError(f"{size} bytes at {address:#x} {self.describe(address)}")
        return self._slice(address, size)

    def _slice(self, address: int, size: int) -> Array:
        return self._bytes[address - BASE : address - BASE + size]

    def describe(self, address: int) -> str:
        """Say where an address is, relative to the nearest allocation."""
        allocation = self.find(address)
        if allocation is None:
            return "lie below every allocation"
        where = f"{allocation.name} ({allocation.size} bytes at {allocation.address:#x})"
        if address < allocation.end:
            return f"reach past the end of {where}"
        return f"lie {address - allocation.end} bytes past the end of {where}"

    def outside(self, addresses: Array, size: int) -> int | None:
        """Return the position of the first access of `size` bytes that no allocation holds."""
        low, high = int(addresses.min()), int(addresses.max())
        allocation = self.find(low)
        if allocation is not None and high + size <= allocation.end:
            return None
        starts = np.array(self._starts, np.int64)
        if not len(starts):
            return 0
        ends = np.array([self._allocations[at].end for at in self._starts], np.int64)
        at = np.searchsorted(starts, addresses, "right") - 1
        wrong = (at < 0) | (addresses + size > ends[at])
        return int(wrong.argmax()) if wrong.any() else None

    def rows(self, unit: int, count: int) -> Array:
        """Return all memory as rows of `count` integers of `unit` bytes."""
        if (unit, count) not in self._views:
            view: Array = self._bytes.view(np.dtype(f"u{unit}"))
            self._views[unit, count] = view.reshape(-1, count)
        return self._views[unit, count]

    def close(self) -> None:
        """Forget every allocation."""
        for address in tuple(self._allocations):
            self.free(address)


def _reserve(capacity: int) -> mmap.mmap:
    """Return addresses for much more than `capacity` bytes, or for as much as there can be."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
    size = max(_RESERVED, 2 * capacity)
    while True:
        try:
            return mmap.mmap(-1, size, flags=flags)
        except OSError:
            size //= 2
            if size < capacity:
                raise


def index(addresses: Any, unit: int) -> Any:
    """Return the rows of addresses that are multiples of `unit`."""
    return (addresses - BASE) // unit
