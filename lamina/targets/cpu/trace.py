"""The memory in which workers note what they do: `%trace` of `runtime.ll`, one for each."""

from __future__ import annotations

import numpy as np

from lamina.targets.memory import ALIGNMENT, allocate
from lamina.targets.timeline import Events

_ROOM = 1 << 16
_COLUMNS = 4


class Trace:
    """Room for the events of one step at a time."""

    def __init__(self, workers: int) -> None:
        """Take memory for `workers`."""
        self.stride = ALIGNMENT + 8 * _COLUMNS * _ROOM
        self._memory = allocate(self.stride * workers)
        self._rooms = self._memory.view(np.int64).reshape(workers, -1)
        self._rooms[:, 1] = _ROOM
        self.address: int = self._memory.ctypes.data

    def take(self) -> tuple[Events, int]:
        """Return the events since the last call, and how many more there were; forget them."""
        found: list[Events] = []
        lost = 0
        for worker, room in enumerate(self._rooms):
            count = min(int(room[0]), _ROOM)
            lost += int(room[0]) - count
            room[0] = 0
            head = ALIGNMENT // 8
            events = room[head : head + _COLUMNS * count].reshape(count, _COLUMNS)
            found.append(np.insert(events, 0, worker, axis=1))
        return np.concatenate(found), lost
