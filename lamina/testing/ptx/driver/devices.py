"""Calls about devices and contexts."""

from __future__ import annotations

from typing import Any

from lamina.testing.ptx.device import STATIC_LIMIT, Device
from lamina.testing.ptx.driver.calls import Calls, Refused, call
from lamina.testing.ptx.driver.enumerations import CUdevice_attribute, CUresult
from lamina.testing.ptx.driver.handles import CUcontext, CUdevice, CUmemoryPool

VERSION = 13000
"""The version of CUDA that the driver says it is: 13.0."""

_PREFIX = "CU_DEVICE_ATTRIBUTE_"

_ATTRIBUTES = {
    "MAX_THREADS_PER_BLOCK": 1024,
    "MAX_BLOCK_DIM_X": 1024,
    "MAX_BLOCK_DIM_Y": 1024,
    "MAX_BLOCK_DIM_Z": 64,
    "MAX_GRID_DIM_X": 2**31 - 1,
    "MAX_GRID_DIM_Y": 65535,
    "MAX_GRID_DIM_Z": 65535,
    "MAX_SHARED_MEMORY_PER_BLOCK": STATIC_LIMIT,
    "TOTAL_CONSTANT_MEMORY": 1 << 16,
    "WARP_SIZE": 32,
    "MAX_REGISTERS_PER_BLOCK": 1 << 16,
    "CLOCK_RATE": 1_000_000,
    "MULTIPROCESSOR_COUNT": 4,
    "INTEGRATED": 0,
    "CONCURRENT_KERNELS": 1,
    "MEMORY_CLOCK_RATE": 1_000_000,
    "GLOBAL_MEMORY_BUS_WIDTH": 256,
    "L2_CACHE_SIZE": 4 << 20,
    "MAX_THREADS_PER_MULTIPROCESSOR": 2048,
    "ASYNC_ENGINE_COUNT": 2,
    "UNIFIED_ADDRESSING": 1,
    "MAX_REGISTERS_PER_MULTIPROCESSOR": 1 << 16,
    "COOPERATIVE_LAUNCH": 0,
    "MAX_BLOCKS_PER_MULTIPROCESSOR": 32,
    "RESERVED_SHARED_MEMORY_PER_BLOCK": 1024,
    "MEMORY_POOLS_SUPPORTED": 1,
}


class DeviceCalls(Calls):
    """`cuInit`, `cuDevice…`, `cuCtx…`."""

    @call(bare=True)
    def cuInit(self, flags: int) -> None:
        """Begin."""
        if flags:
            raise Refused(CUresult.CUDA_ERROR_INVALID_VALUE, "the flags have to be 0")
        if not self.specifications:
            raise Refused(CUresult.CUDA_ERROR_NO_DEVICE, "there is no device")
        self.initialised = True

    @call(1, bare=True)
    def cuDriverGetVersion(self) -> int:
        """Return 1000 · major + 10 · minor."""
        return VERSION

    @call(1)
    def cuDeviceGetCount(self) -> int:
        """Return how many devices there are."""
        return len(self.specifications)

    @call(1)
    def cuDeviceGet(self, ordinal: int) -> CUdevice:
        """Return a device."""
        return CUdevice(self._ordinal(ordinal))

    def _ordinal(self, device: int) -> int:
        if not 0 <= device < len(self.specifications):
            why = f"there is no device {device}, there are {len(self.specifications)}"
            raise Refused(CUresult.CUDA_ERROR_INVALID_DEVICE, why)
        return int(device)

    @call(1)
    def cuDeviceGetName(self, length: int, device: int) -> bytes:
        """Return a device's name, padded with zeros to `length`."""
        name = self.specifications[self._ordinal(device)].name.encode()[: length - 1]
        return name.ljust(length, b"\0")

    @call(1)
    def cuDeviceGetAttribute(self, attribute: int, device: int) -> int:
        """Return a fact about a device."""
        specification = self.specifications[self._ordinal(device)]
        try:
            name = CUdevice_attribute(attribute).name.removeprefix(_PREFIX)
        except ValueError:
            why = f"attribute {attribute} is not known"
            raise Refused(CUresult.CUDA_ERROR_INVALID_VALUE, why) from None
        own = {
            "COMPUTE_CAPABILITY_MAJOR": specification.capability[0],
            "COMPUTE_CAPABILITY_MINOR": specification.capability[1],
            "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": specification.shared_limit,
            "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": specification.shared_limit + 1024,
        }
        return {**_ATTRIBUTES, **own}[name]

    @call(1)
    def cuDeviceTotalMem(self, device: int) -> int:
        """Return a device's bytes of memory."""
        return self.specifications[self._ordinal(device)].memory

    @call(1)
    def cuDevicePrimaryCtxRetain(self, device: int) -> CUcontext:
        """Return the context of a device, made if need be."""
        ordinal = self._ordinal(device)
        context = self.contexts.get(ordinal)
        if context is None:
            specification = self.specifications[ordinal]
            made = Device(specification, poison=self.poison, independent=self.independent)
            context = self.contexts[ordinal] = CUcontext(ordinal, specification, made)
        context.retained += 1
        return context

    @call(releases=True)
    def cuDevicePrimaryCtxRelease(self, device: int) -> None:
        """Give the context back; the last one to do so frees what it holds."""
        context = self.contexts.get(self._ordinal(device))
        if context is None:
            raise Refused(CUresult.CUDA_ERROR_INVALID_CONTEXT, "the context is not retained")
        context.retained -= 1
        if not context.retained:
            del self.contexts[context.ordinal]
            context.alive = False
            context.allocations.clear()
            context.device.memory.close()
            self.streams = [stream for stream in self.streams if stream.context is not context]
            self.libraries = [code for code in self.libraries if code.context is not context]

    @call()
    def cuCtxSetCurrent(self, context: CUcontext | None) -> None:
        """Make a context the calling thread's."""
        if context is not None and not context.alive:
            raise Refused(CUresult.CUDA_ERROR_CONTEXT_IS_DESTROYED, "the context is destroyed")
        self.current.context = context

    @call(1)
    def cuCtxGetCurrent(self) -> CUcontext | None:
        """Return the calling thread's context."""
        return getattr(self.current, "context", None)

    @call(1)
    def cuCtxGetDevice(self) -> CUdevice:
        """Return the device of the calling thread's context."""
        return CUdevice(self.context.ordinal)

    @call(1)
    def cuDeviceGetDefaultMemPool(self, device: int) -> CUmemoryPool:
        """Return the pool of a device."""
        return CUmemoryPool(self._ordinal(device))

    @call()
    def cuMemPoolSetAttribute(self, pool: CUmemoryPool, attribute: int, value: Any) -> None:
        """Set a fact of a pool; here it changes nothing."""
        pool.attributes[int(attribute)] = int(value)

    @call(1)
    def cuMemPoolGetAttribute(self, pool: CUmemoryPool, attribute: int) -> int:
        """Return a fact of a pool."""
        return pool.attributes.get(int(attribute), 0)

    @call()
    def cuMemPoolTrimTo(self, pool: CUmemoryPool, keep: int) -> None:
        """Give memory back to the system; here there is none to give."""
        del pool, keep

    @call(1, bare=True)
    def cuGetErrorName(self, error: int) -> bytes:
        """Return the name of a result."""
        return CUresult(error).name.encode()

    @call(1, bare=True)
    def cuGetErrorString(self, error: int) -> bytes:
        """Return what a result means."""
        words = CUresult(error).name.removeprefix("CUDA_").removeprefix("ERROR_")
        return words.lower().replace("_", " ").encode()
