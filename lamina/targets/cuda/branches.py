"""Work that a device does side by side: streams that part from its own, and meet it again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lamina.targets.cuda.device import CudaDevice

_BESIDE: Final = 3
"""Streams beside the device's own: the kernels of a launch are seldom more."""

Work = Callable[[Any], None]
"""Gives a stream something to do."""


class Branches:
    """Streams beside a device's own."""

    def __init__(self, device: CudaDevice) -> None:
        """Make streams, and events for where they part and meet."""
        driver = device.driver
        self._device = device
        self._parting = self._event()
        flags = int(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
        self._streams = [device.call("cuStreamCreate", flags) for _ in range(_BESIDE)]
        self._meeting = [self._event() for _ in self._streams]
        for stream in self._streams:
            device.own(self, "cuStreamDestroy", stream)

    def _event(self) -> Any:
        device = self._device
        flags = int(device.driver.CUevent_flags.CU_EVENT_DISABLE_TIMING)
        event = device.call("cuEventCreate", flags)
        device.own(self, "cuEventDestroy", event)
        return event

    def give(self, works: Sequence[Work]) -> None:
        """Have the device do works at once, after all before them and before all that comes."""
        call, own = self._device.call, self._device.stream
        used = min(len(works) - 1, _BESIDE)
        streams = [own, *self._streams[:used]]
        if used:
            call("cuEventRecord", self._parting, own)
        for stream in streams[1:]:
            call("cuStreamWaitEvent", stream, self._parting, 0)
        for n, work in enumerate(works):
            work(streams[n % len(streams)])
        for stream, event in zip(streams[1:], self._meeting, strict=False):
            call("cuEventRecord", event, stream)
            call("cuStreamWaitEvent", own, event, 0)
