"""When launches began and were over, by events between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lamina.targets.cuda.compiled_kernels import Launch
from lamina.targets.cuda.device import CudaDevice
from lamina.targets.devices.noting import Times


class _Event:
    """An event of a device, forgotten when nobody has it any more."""

    def __init__(self, device: CudaDevice) -> None:
        """Make an event that has a time."""
        self.handle: Any = device.call("cuEventCreate", 0)
        device.own(self, "cuEventDestroy", self.handle)


class Clock:
    """Times launches on a device; events are kept for the next ones."""

    def __init__(self, device: CudaDevice) -> None:
        """Have no events yet."""
        self._device = device
        self._events: list[_Event] = []

    def timed(self, launches: Sequence[Launch]) -> Times:
        """Have launches done one after another, wait, and return their times from the first on.

        A launch begins where the one before it ends.
        """
        device = self._device
        while len(self._events) <= len(launches):
            self._events.append(_Event(device))
        first, *ends = (event.handle for event in self._events[: len(launches) + 1])
        device.call("cuEventRecord", first, device.stream)
        for launch, end in zip(launches, ends, strict=True):
            launch.give(device)
            device.call("cuEventRecord", end, device.stream)
        device.wait()
        milliseconds = [0.0, *(device.call("cuEventElapsedTime", first, end) for end in ends)]
        times = np.rint(np.array(milliseconds) * 1e6).astype(np.int64)
        return np.stack([times[:-1], times[1:]], axis=1)
