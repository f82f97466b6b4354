"""The detector of races between blocks, on global memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from lamina.targets.reference.dtypes import Array
from lamina.testing.ptx.memory import Allocation, Memory
from lamina.testing.ptx.shared import Trouble

_LAUNCH = 1 << 32
_MANY = _LAUNCH - 1


class Neighbours:
    """For each place in global memory, which block of this launch wrote it and which read it.

    Blocks run in any order, so that none may use what another one changes in the same launch. A
    store of what is there already changes nothing, and atomic operations are left out.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._launch = 0
        self._granule = 1
        self._shadows: dict[int, dict[int, tuple[int, Array, Array]]] = {}

    def begin(self, granule: int) -> None:
        """Begin a launch whose accesses are of at least so many bytes."""
        self._launch += _LAUNCH
        self._granule = granule

    def forget(self, address: int) -> None:
        """An allocation is gone."""
        self._shadows.pop(address, None)

    def read(self, blocks: Array, addresses: Array, size: int) -> Trouble | None:
        """Note that blocks read; they must not read what another block has written."""
        for part, writer, reader, cells, tags, per in self._split(blocks, addresses, size):
            other = (writer[cells] > self._launch) & (writer[cells] != tags)
            if other.any():
                return self._trouble("wrote here", part, other, writer[cells], per)
            before = reader[cells]
            shared = (before > self._launch) & (before != tags)
            new = np.where(shared, self._launch + _MANY, tags)
            reader[cells] = new
            reader[cells[reader[cells] != new]] = self._launch + _MANY
        return None

    def write(self, blocks: Array, addresses: Array, size: int, changed: Array) -> Trouble | None:
        """Note that blocks change places; no other block may have written or read them."""
        chosen = np.flatnonzero(changed)
        if not len(chosen):
            return None
        found = self._split(blocks[chosen], addresses[chosen], size)
        for part, writer, reader, cells, tags, per in found:
            for shadow, what in ((writer, "wrote here"), (reader, "read here")):
                other = (shadow[cells] > self._launch) & (shadow[cells] != tags)
                if other.any():
                    return self._trouble(what, chosen[part], other, shadow[cells], per)
            writer[cells] = tags
        return None

    def _split(
        self, blocks: Array, addresses: Array, size: int
    ) -> Iterator[tuple[Array, Array, Array, Array, Array, int]]:
        per = max(size // self._granule, 1)
        for allocation, part in self._by_allocation(addresses):
            writer, reader = self._shadow(allocation)
            first = (addresses[part] - allocation.address) // self._granule
            cells = (first[:, None] + np.arange(per)).ravel()
            tags = self._launch + 1 + np.repeat(blocks[part].astype(np.int64), per)
            yield part, writer, reader, cells, tags, per

    def _by_allocation(self, addresses: Array) -> Iterator[tuple[Allocation, Array]]:
        left = np.arange(len(addresses))
        while len(left):
            allocation = self._memory.find(int(addresses[left].min()))
            assert allocation is not None
            inside = addresses[left] < allocation.end
            yield allocation, left[inside]
            left = left[~inside]

    def _shadow(self, allocation: Allocation) -> tuple[Array, Array]:
        shadows = self._shadows.setdefault(allocation.address, {})
        known = shadows.get(self._granule)
        if known is None or known[0] != allocation.size:
            cells = -(-allocation.size // self._granule)
            known = (allocation.size, np.zeros(cells, np.int64), np.zeros(cells, np.int64))
            shadows[self._granule] = known
        return known[1], known[2]

    def _trouble(self, verb: str, part: Array, wrong: Array, tags: Array, per: int) -> Trouble:
        at = int(wrong.argmax())
        block = int(tags[at] - self._launch) - 1
        who = "several blocks" if block == _MANY - 1 else f"block number {block}"
        return Trouble("race", int(part[at // per]), f"{who} {verb} in the same launch")
