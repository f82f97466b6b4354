"""Work of a device that is done again and again: captured once, then replayed as one graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lamina.targets.cuda.device import CudaDevice


class Graph:
    """Work as the driver replays it, forgotten when nobody has it any more."""

    def __init__(self, device: CudaDevice, give: Callable[[], None]) -> None:
        """Capture the work that `give` gives to the device's stream, instead of having it done."""
        self._device = device
        handle = _captured(device, give)
        try:
            self._replay: Any = device.call("cuGraphInstantiate", handle, 0)
        finally:
            device.call("cuGraphDestroy", handle)
        self._end = device.own(self, "cuGraphExecDestroy", self._replay)

    def give(self) -> None:
        """Have the device do it after all that it was given before."""
        self._device.call("cuGraphLaunch", self._replay, self._device.stream)

    def destroy(self) -> None:
        """Forget it."""
        self._end()


def _captured(device: CudaDevice, give: Callable[[], None]) -> Any:
    # Other threads may go on with streams of theirs.
    mode = device.driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    device.call("cuStreamBeginCapture", device.stream, mode)
    device.capturing = True
    try:
        give()
    except BaseException:
        # The stream is of no use before its capture has ended, whatever that says.
        status, part = device.driver.cuStreamEndCapture(device.stream)
        if status == 0:
            device.driver.cuGraphDestroy(part)
        raise
    finally:
        device.capturing = False
    return device.call("cuStreamEndCapture", device.stream)
