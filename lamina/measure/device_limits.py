"""The limits of a device that other figures are held against: copying, and f32 arithmetic."""

from __future__ import annotations

from time import perf_counter
from typing import Any, Final

from lamina.errors import InputError
from lamina.measure.device_probe import measure_floats
from lamina.measure.limits import Limits
from lamina.progress import report
from lamina.targets.base import Target
from lamina.targets.devices.executable import DeviceExecutable
from lamina.targets.devices.memory import B, DeviceMemory

_WORK: Final = "measuring the device"
_LEAST_BYTES: Final = 1 << 20
_LEAST_SECONDS: Final = 0.02
"""How long a measurement takes at least, so that giving the device work counts for little."""


def measure_device_limits(
    executable: DeviceExecutable[Any, Any, Any],
    target: Target,
    *,
    megabytes: int = 256,
    blocks: int = 1024,
    rounds: int = 5,
) -> Limits:
    """Measure the device that `executable`, compiled for `target`, is on; the best of `rounds`.

    A buffer of `megabytes`, or as many as there is room for, is copied to another by the device's
    own means; bytes read and written count, for reading too. `blocks` blocks of threads multiply
    and add f32. Raises `InputError` if there is no memory, `TargetUnavailable` if the device is
    lost.
    """
    device: DeviceMemory[Any] = executable.device
    with device.lock:
        rate = _copying(device, megabytes << 20, rounds)
    floats = measure_floats(target, blocks=blocks, rounds=rounds)
    return Limits(1, rate, rate, floats, 0.0, device.name)


def _copying(device: DeviceMemory[B], size: int, rounds: int) -> float:
    """Return the bytes a second that are read and written."""
    source, target = _buffers(device, size)
    size = min(size, source.size, target.size)
    times = 1
    while (seconds := _seconds(device, source, target, size, times)) < _LEAST_SECONDS:
        times *= 2
    for number in range(rounds):
        seconds = min(seconds, _seconds(device, source, target, size, times))
        report(_WORK, number + 1, rounds)
    source.destroy()
    target.destroy()
    return 2 * size * times / seconds


def _buffers(device: DeviceMemory[B], size: int) -> tuple[B, B]:
    """Return two buffers of `size` bytes, or of half as many where there is no room, and so on."""
    first: B | None = None
    try:
        first = device.storage(size)
        return first, device.storage(size)
    except InputError:
        if first is not None:
            first.destroy()
        if size // 2 < _LEAST_BYTES:
            raise
    return _buffers(device, size // 2)


def _seconds(device: DeviceMemory[B], source: B, target: B, size: int, times: int) -> float:
    began = perf_counter()
    device.copy(source, target, size, times)
    return perf_counter() - began
