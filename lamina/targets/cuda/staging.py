"""Pinned memory that a device copies to and from while the program goes on."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lamina.targets.base import Array

if TYPE_CHECKING:
    from lamina.targets.cuda.device import CudaDevice

CHUNK: Final = 16 << 20
"""Bytes that are copied at once."""

_SMALL: Final = 1 << 20
"""What a slot has at first: enough for most states and inputs."""


class Pinned:
    """Memory of the program that the device can reach."""

    def __init__(self, device: CudaDevice, size: int) -> None:
        """Have `size` bytes, of undefined contents."""
        self.size = max(size, 1)
        self.address = int(device.call("cuMemHostAlloc", self.size, 0))
        self._end = device.own(self, "cuMemFreeHost", self.address)
        block = (ctypes.c_uint8 * self.size).from_address(self.address)
        self.array: Array = np.ctypeslib.as_array(block)

    def destroy(self) -> None:
        """Give it back; nothing may use it any more, `array` neither."""
        self._end()


@dataclass
class _Slot:
    """Pinned memory, and the event after which it may be written again."""

    memory: Pinned
    event: Any


class Staging:
    """Copies by way of two slots: one is filled while the device reads the other."""

    def __init__(self, device: CudaDevice) -> None:
        """Have two small slots."""
        self._device = device
        self._slots = [self._slot(), self._slot()]
        self._next = 0

    def _slot(self) -> _Slot:
        device = self._device
        flags = device.driver.CUevent_flags.CU_EVENT_DISABLE_TIMING
        event = device.call("cuEventCreate", int(flags))
        slot = _Slot(Pinned(device, _SMALL), event)
        device.own(slot, "cuEventDestroy", event)
        return slot

    def _taken(self, size: int) -> _Slot:
        """Return a slot that nothing reads any more, of at least `size` bytes."""
        slot = self._slots[self._next]
        self._next = 1 - self._next
        self._device.call("cuEventSynchronize", slot.event)
        if slot.memory.size < size:
            slot.memory.destroy()
            slot.memory = Pinned(self._device, CHUNK)
        return slot

    def send(self, address: int, data: Array) -> None:
        """Copy bytes [n] to the device; `data` may change afterwards."""
        device = self._device
        for start in range(0, data.size, CHUNK):
            part = data[start : start + CHUNK]
            slot = self._taken(part.size)
            slot.memory.array[: part.size] = part
            device.call(
                "cuMemcpyHtoDAsync",
                address + start,
                slot.memory.address,
                part.size,
                device.stream,
            )
            device.call("cuEventRecord", slot.event, device.stream)

    def receive(self, address: int, data: Array) -> None:
        """Fill `data`, bytes [n], from the device."""
        device = self._device
        for start in range(0, data.size, CHUNK):
            part = data[start : start + CHUNK]
            slot = self._taken(part.size)
            device.call(
                "cuMemcpyDtoHAsync",
                slot.memory.address,
                address + start,
                part.size,
                device.stream,
            )
            device.wait()
            part[...] = slot.memory.array[: part.size]
