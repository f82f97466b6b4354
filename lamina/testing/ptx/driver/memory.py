"""Calls about memory."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from lamina.errors import InputError
from lamina.targets.reference.dtypes import Array
from lamina.testing.ptx.device import Device
from lamina.testing.ptx.driver.calls import Refused, call
from lamina.testing.ptx.driver.enumerations import CUresult
from lamina.testing.ptx.driver.handles import CUcontext, CUdeviceptr
from lamina.testing.ptx.driver.streams import StreamCalls
from lamina.testing.ptx.memory import MemoryFull


def host(place: Any, size: int) -> Array:
    """Return bytes of the program's own memory, given an address or a buffer."""
    if isinstance(place, int):
        return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(place))
    octets = np.frombuffer(memoryview(place).cast("B"), np.uint8)
    if len(octets) < size:
        why = f"a buffer of {len(octets)} bytes, {size} are to be copied"
        raise Refused(CUresult.CUDA_ERROR_INVALID_VALUE, why)
    return octets[:size]


def view(device: Device, address: int, size: int) -> Array:
    """Return bytes of a device's memory."""
    try:
        return device.memory.view(int(address), int(size))
    except InputError as error:
        raise Refused(CUresult.CUDA_ERROR_INVALID_VALUE, str(error)) from error


class MemoryCalls(StreamCalls):
    """`cuMem…`: device memory, pinned memory, copies."""

    @call(1)
    def cuMemAlloc(self, size: int) -> CUdeviceptr:
        """Return the address of new memory."""
        self.unsafe("cuMemAlloc")
        return self._allocate(size)

    @call(1)
    def cuMemAllocAsync(self, size: int, handle: Any) -> CUdeviceptr:
        """Return the address of new memory; it is there at once."""
        self.not_captured(self.stream(handle), "cuMemAllocAsync")
        return self._allocate(size)

    def _allocate(self, size: int) -> CUdeviceptr:
        context = self.context
        if size <= 0:
            raise Refused(CUresult.CUDA_ERROR_INVALID_VALUE, f"{size} bytes cannot be allocated")
        try:
            address = context.device.alloc(size)
        except MemoryFull as full:
            raise Refused(CUresult.CUDA_ERROR_OUT_OF_MEMORY, str(full)) from full
        context.allocations.add(address)
        return CUdeviceptr(address)

    @call(releases=True)
    def cuMemFree(self, address: int) -> None:
        """Give memory back, once all streams are done."""
        self.unsafe("cuMemFree")
        if not self.lost:
            self.drain()
        self._free(self.context, int(address))

    @call(releases=True)
    def cuMemFreeAsync(self, address: int, handle: Any) -> None:
        """Give memory back, once a stream gets there."""
        if int(address) not in self.context.allocations:
            raise Refused(CUresult.CUDA_ERROR_INVALID_VALUE, f"nothing begins at {address:#x}")
        if self.lost:
            self._free(self.context, int(address))
        else:
            context = self.context
            self.submit(handle, lambda: self._free(context, int(address)))

    def _free(self, context: CUcontext, address: int) -> None:
        if address not in context.allocations:
            raise Refused(CUresult.CUDA_ERROR_INVALID_VALUE, f"nothing begins at {address:#x}")
        context.allocations.remove(address)
        context.device.free(address)

    @call(2)
    def cuMemGetInfo(self) -> tuple[int, int]:
        """Return how many bytes are free, and how many there are."""
        context = self.context
        memory = context.device.memory
        return memory.capacity - memory.used, context.specification.memory

    @call(1)
    def cuMemAllocHost(self, size: int) -> int:
        """Return the address of pinned memory of the program."""
        return self._pin(size)

    @call(1)
    def cuMemHostAlloc(self, size: int, flags: int) -> int:
        """Return the address of pinned memory of the program."""
        del flags
        return self._pin(size)

    def _pin(self, size: int) -> int:
        assert self.context
        octets = np.full(max(size, 1), self.poison, np.uint8)
        self.pinned[octets.ctypes.data] = (octets, size)
        return octets.ctypes.data

    @call()
    def cuMemHostRegister(self, place: Any, size: int, flags: int) -> None:
        """Pin memory that the program has."""
        del flags
        self.pinned[int(place)] = (None, size)

    @call(releases=True)
    def cuMemHostUnregister(self, place: Any) -> None:
        """Pin memory no more."""
        self._unpin(int(place))

    @call(releases=True)
    def cuMemFreeHost(self, place: Any) -> None:
        """Give pinned memory back."""
        self._unpin(int(place))

    def _unpin(self, place: int) -> None:
        if self.pinned.pop(place, None) is None:
            raise Refused(CUresult.CUDA_ERROR_INVALID_VALUE, f"{place:#x} is not pinned")

    def _is_pinned(self, place: Any, size: int) -> bool:
        if not isinstance(place, int):
            return False
        return any(
            start <= place and place + size <= start + length
            for start, (_, length) in self.pinned.items()
        )

    @call()
    def cuMemcpyHtoD(self, target: int, source: Any, size: int) -> None:
        """Copy to the device, and wait."""
        device = self.context.device
        self.unsafe("cuMemcpyHtoD")
        self.drain(blocking_only=True)
        view(device, target, size)[:] = host(source, size)

    @call()
    def cuMemcpyDtoH(self, target: Any, source: int, size: int) -> None:
        """Copy from the device, and wait."""
        device = self.context.device
        self.unsafe("cuMemcpyDtoH")
        self.drain(blocking_only=True)
        host(target, size)[:] = view(device, source, size)

    @call()
    def cuMemcpyDtoD(self, target: int, source: int, size: int) -> None:
        """Copy within the device."""
        device = self.context.device
        self.unsafe("cuMemcpyDtoD")
        self.drain(blocking_only=True)
        view(device, target, size)[:] = view(device, source, size).copy()

    @call()
    def cuMemcpyHtoDAsync(self, target: int, source: Any, size: int, handle: Any) -> None:
        """Copy to the device; pinned memory is read when the stream gets there, other now."""
        device = self.context.device
        view(device, target, size)
        if self._is_pinned(source, size):
            read: Callable[[], Array] = lambda: host(source, size)  # noqa: E731
        else:
            taken = host(source, size).copy()
            read = lambda: taken  # noqa: E731

        def copy() -> None:
            view(device, target, size)[:] = read()

        self.submit(handle, copy)

    @call()
    def cuMemcpyDtoHAsync(self, target: Any, source: int, size: int, handle: Any) -> None:
        """Copy from the device when the stream gets there."""
        device = self.context.device
        view(device, source, size)

        def copy() -> None:
            host(target, size)[:] = view(device, source, size)

        self.submit(handle, copy)

    @call()
    def cuMemcpyDtoDAsync(self, target: int, source: int, size: int, handle: Any) -> None:
        """Copy within the device when the stream gets there."""
        device = self.context.device
        view(device, target, size)
        view(device, source, size)

        def copy() -> None:
            view(device, target, size)[:] = view(device, source, size).copy()

        self.submit(handle, copy)

    @call()
    def cuMemsetD8(self, target: int, value: int, count: int) -> None:
        """Fill bytes."""
        device = self.context.device
        self.unsafe("cuMemsetD8")
        self.drain(blocking_only=True)
        view(device, target, count)[:] = value

    @call()
    def cuMemsetD8Async(self, target: int, value: int, count: int, handle: Any) -> None:
        """Fill bytes when the stream gets there."""
        device = self.context.device
        view(device, target, count)

        def fill() -> None:
            view(device, target, count)[:] = value

        self.submit(handle, fill)

    @call()
    def cuMemsetD32Async(self, target: int, value: int, count: int, handle: Any) -> None:
        """Fill words of 32 bits when the stream gets there."""
        device = self.context.device
        view(device, target, 4 * count)

        def fill() -> None:
            view(device, target, 4 * count).view(np.uint32)[:] = value

        self.submit(handle, fill)
