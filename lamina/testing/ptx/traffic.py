"""How well a kernel's accesses to memory fit banks and sectors, line by line."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from lamina.targets.reference.dtypes import Array
from lamina.testing.ptx.clocks import WARP

BANKS = 32
SECTOR = 32
"""Bytes that global memory gives at least."""


@dataclass
class Requests:
    """Accesses by parts of warps: how many steps they take, and how many they would at best."""

    steps: int = 0
    least: int = 0

    @property
    def excess(self) -> int:
        """Steps that a better arrangement would save."""
        return self.steps - self.least


@dataclass
class Traffic:
    """Requests by the line of the PTX; give one to `Device.launch` to have it filled.

    `shared` counts bank conflicts: an access of 4 bytes is one step a warp, of 8 one a half and of
    16 one a quarter, unless two different words lie in one bank. `memory` counts sectors of 32
    bytes of global memory that warps touch, against those that their bytes would fill.
    """

    shared: dict[int, Requests] = field(default_factory=lambda: defaultdict(Requests))
    memory: dict[int, Requests] = field(default_factory=lambda: defaultdict(Requests))

    @property
    def conflicts(self) -> int:
        """Steps that bank conflicts cost in all."""
        return sum(requests.excess for requests in self.shared.values())

    def note_shared(self, line: int, who: Array, addresses: Array, size: int) -> None:
        """Count an access of `size` bytes at shared addresses by threads."""
        words = max(size // 4, 1)
        group = who // (WARP // words)
        word = (addresses // 4)[:, None] + np.arange(words)
        pairs = np.unique(np.stack([np.repeat(group, words), word.ravel()], axis=1), axis=0)
        groups, position = np.unique(pairs[:, 0], return_inverse=True)
        counts = np.bincount(position * BANKS + pairs[:, 1] % BANKS, minlength=len(groups) * BANKS)
        requests = self.shared[line]
        requests.steps += int(counts.reshape(-1, BANKS).max(axis=1).sum())
        requests.least += len(groups)

    def note_memory(self, line: int, who: Array, addresses: Array, size: int) -> None:
        """Count an access of `size` bytes at addresses of global memory by threads."""
        warp = who // WARP
        units = np.unique(np.stack([warp, addresses // size], axis=1), axis=0)
        sectors = np.stack([units[:, 0], units[:, 1] * size // SECTOR], axis=1)
        requests = self.memory[line]
        requests.steps += len(np.unique(sectors, axis=0)) * max(size // SECTOR, 1)
        filled = np.bincount(np.unique(units[:, 0], return_inverse=True)[1]) * size
        requests.least += int((-(-filled // SECTOR)).sum())
