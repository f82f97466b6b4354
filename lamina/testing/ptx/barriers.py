"""The barriers of blocks: who waits, for whom, and what they know afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from lamina.targets.reference.dtypes import Array
from lamina.testing.ptx.clocks import WARP
from lamina.testing.ptx.lanes import Lanes

if TYPE_CHECKING:
    from lamina.testing.ptx.threads import Threads

Finish = Callable[["Threads", Lanes], None]
"""What released threads do before they go on."""


class Barriers:
    """Threads that wait, by barrier and by the instruction at which they do.

    A barrier opens for a block when all its live threads wait at one instruction, or, where the
    instruction counts, when so many threads wait or have arrived.
    """

    def __init__(self) -> None:
        self._waiting: dict[tuple[int, int], tuple[Array, int | None, Finish | None]] = {}
        self._arrived: dict[int, Array] = {}

    def wait(
        self, threads: Threads, lanes: Lanes, name: int, count: int | None, finish: Finish | None
    ) -> bool:
        """Let threads wait at the instruction that runs now; tell whether any still do."""
        if count is None and not self._waiting and lanes.count == int(threads.live.sum()):
            threads.clocks.meet(slice(None))
            if finish:
                finish(threads, lanes)
            return False
        key = (name, threads.pc)
        mask = lanes.mask.copy()
        if key in self._waiting:
            mask |= self._waiting[key][0]
        self._waiting[key] = (mask, count, finish)
        self.look(threads)
        return True

    def arrive(self, threads: Threads, lanes: Lanes, name: int) -> None:
        """Count threads as arrived; they do not wait."""
        self._arrived[name] = self._those_arrived(threads, name) | lanes.mask
        self.look(threads)

    def look(self, threads: Threads) -> None:
        """Open the barriers at which everybody is."""
        for key, (mask, count, finish) in tuple(self._waiting.items()):
            by_block = mask.reshape(threads.blocks, -1)
            if count is None:
                live = threads.live.reshape(threads.blocks, -1)
                ready = by_block.any(-1) & (by_block >= live).all(axis=1)
            else:
                ready = self._counted(threads, key[0], by_block, count)
            if not ready.any():
                continue
            released = mask & np.repeat(ready, threads.per_block)
            self._open(threads, key, released, np.flatnonzero(ready), count)
            left = mask & ~released
            self._waiting[key] = (left, count, finish)
            if not left.any():
                del self._waiting[key]
            lanes = Lanes(released)
            if finish:
                finish(threads, lanes)
            threads.go_on(key[1] + 1, lanes)

    def _counted(self, threads: Threads, name: int, by_block: Array, count: int) -> Array:
        here = _warps(threads, by_block)
        there = _warps(threads, self._those_arrived(threads, name))
        return here.any(-1) & ((here | there).sum(axis=1) * WARP >= count)

    def _open(
        self,
        threads: Threads,
        key: tuple[int, int],
        released: Array,
        blocks: Array,
        count: int | None,
    ) -> None:
        if count is None:
            threads.clocks.meet(blocks)
            return
        warps = _warps(threads, released)
        arrived = self._those_arrived(threads, key[0])
        there = _warps(threads, arrived)
        for block in blocks:
            waited = np.flatnonzero(warps[block])
            came = np.flatnonzero(warps[block] | there[block])
            threads.clocks.meet_some(int(block), waited, came)
        opened = np.isin(np.arange(threads.blocks), blocks)
        self._arrived[key[0]] = arrived & ~np.repeat(opened, threads.per_block)

    def _those_arrived(self, threads: Threads, name: int) -> Array:
        return self._arrived.get(name, np.zeros(threads.count, np.bool_))

    def stuck(self, threads: Threads) -> None:
        """Raise a `KernelFault` if threads wait although nothing runs any more."""
        if not self._waiting:
            return
        places = [
            (threads.program.lines[pc], int(mask.argmax()))
            for (_, pc), (mask, _, _) in sorted(self._waiting.items())
        ]
        line, first = places[0]
        block = first // threads.per_block
        others = [(at, who) for at, who in places[1:] if who // threads.per_block == block]
        what = "the thread waits at a barrier for ever"
        if others:
            number = others[0][1] % threads.per_block
            what += f": thread {number} of its block waits at line {others[0][0]}"
        raise threads.fault("barrier", what, first, line)


def _warps(threads: Threads, mask: Array) -> Array:
    """Return which warps of each block have a thread in a set."""
    return mask.reshape(threads.blocks, -1, WARP).max(axis=2)
