"""Which thread knows what another one did: vector clocks that barriers move."""

from __future__ import annotations

import numpy as np

from lamina.targets.reference.dtypes import Array

WARP = 32


class Clocks:
    """Times up to which threads know each other's accesses, in one block or in none.

    `now` numbers accesses and barriers; what happened at a time up to `floor` every thread of a
    block knows of every other. A warp knows another as of `warps`, a thread another one of its
    own warp also as of `lanes`. (Mattern, Virtual time and global states, 1989.)
    """

    def __init__(self, blocks: int, warps: int) -> None:
        self.now = 0
        self.floor = 0
        self.fine = False
        self.threads_per_block = warps * WARP
        self._per_block = warps
        self._warps: Array = np.zeros((blocks, warps, warps), np.int64)
        self._lanes: Array | None = None

    def tick(self) -> int:
        """Begin a new time and return it."""
        self.now += 1
        return self.now

    def meet(self, blocks: Array | slice) -> None:
        """All threads of blocks have waited for each other."""
        self._warps[blocks] = self.tick()
        self.floor = int(self._warps.min())

    def meet_some(self, block: int, warps: Array, released: Array) -> None:
        """Warps of a block that waited learn what `released`, those that arrived, know."""
        self.fine = True
        known = self._warps[block, released].max(axis=0)
        known[released] = self.tick()
        self._warps[block, warps] = np.maximum(self._warps[block, warps], known)

    def known_to(self, thread: int) -> Array:
        """Return what a thread, and with it its warp, knows of each warp of its block, now."""
        block, number = divmod(thread, self.threads_per_block)
        known: Array = self._warps[block, number // WARP].copy()
        known[number // WARP] = self.tick()
        return known

    def learn(self, threads: Array, known: Array) -> None:
        """Let the warps of threads of one block know what others knew."""
        self.fine = True
        block = int(threads[0]) // self.threads_per_block
        warps = np.unique(threads % self.threads_per_block // WARP)
        self._warps[block, warps] = np.maximum(self._warps[block, warps], known)

    def meet_warps(self, warps: Array) -> None:
        """All threads of each of these warps have waited for each other."""
        lanes = self._fine_clocks().reshape(-1, WARP, WARP)
        lanes[warps] = self.tick()

    def meet_lanes(self, threads: Array) -> None:
        """Some threads of one warp have waited for each other."""
        lanes = self._fine_clocks()
        known = lanes[threads].max(axis=0)
        known[threads % WARP] = self.tick()
        lanes[threads] = known

    def _fine_clocks(self) -> Array:
        if self._lanes is None:
            count = self._warps.shape[0] * self._per_block * WARP
            self._lanes = np.zeros((count, WARP), np.int64)
        self.fine = True
        return self._lanes

    def knows(self, who: Array, other: Array, time: Array) -> Array:
        """Tell whether each thread knows what another one did at a time."""
        per = self._per_block * WARP
        block = who // per
        mine, its = who % per // WARP, other % per // WARP
        known = (who == other) | (self._warps[block, mine, its] >= time)
        if self._lanes is not None:
            known |= (mine == its) & (self._lanes[who, other % WARP] >= time)
        return known
