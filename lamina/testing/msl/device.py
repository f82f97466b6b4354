"""The objects of Metal as pyobjc gives them, made of kernels that run on this machine's CPU.

`Metal()` stands for the module `Metal`: devices, queues, command buffers, encoders, buffers,
libraries and pipeline states have the methods that a thin runtime calls, with pyobjc's names and
results. What Metal's API validation stops a program for is an `MslError`; what it reports is an
error object. Work is done at the latest moment, when it is waited for, so that reading results
before that shows.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Sequence
from typing import Any, Final
from weakref import finalize

from lamina.testing.msl.commands import COMPLETED, CONCURRENT, ERROR, SERIAL, CommandQueue
from lamina.testing.msl.errors import MslError
from lamina.testing.msl.library import Schedule, compile
from lamina.testing.msl.memory import Memory
from lamina.testing.msl.objects import (
    Buffer,
    CompiledLibrary,
    CompileOptions,
    Error,
    Function,
    MTLSize,
    PipelineState,
)

_MOST_THREADGROUP_BYTES: Final = 32768


class Metal:
    """The module `Metal`: one device with so much memory, whose threads take turns by `schedule`.

    `devices` set to 0 is a machine without one.
    """

    MTLCompileOptions = CompileOptions
    MTLSize = MTLSize
    MTLResourceStorageModeShared: Final = 0
    MTLResourceHazardTrackingModeUntracked: Final = 1 << 8
    MTLDispatchTypeSerial: Final = SERIAL
    MTLDispatchTypeConcurrent: Final = CONCURRENT
    MTLBarrierScopeBuffers: Final = 1
    MTLCommandBufferStatusCompleted: Final = COMPLETED
    MTLCommandBufferStatusError: Final = ERROR
    MTLMathModeSafe: Final = 0
    MTLLanguageVersion3_1: Final = (3 << 16) + 1

    def __init__(
        self,
        *,
        memory: int = 1 << 34,
        schedule: Schedule = "forward",
        seed: int = 0,
        races: bool = True,
        devices: int = 1,
    ) -> None:
        """Have devices with `memory` bytes each."""
        self._devices = [Device(memory, schedule, seed, races) for _ in range(devices)]

    def MTLCreateSystemDefaultDevice(self) -> Device | None:
        """Return the first device, None if there is none."""
        return self._devices[0] if self._devices else None

    def MTLCopyAllDevices(self) -> Sequence[Device]:
        """Return all devices."""
        return tuple(self._devices)

    def MTLSizeMake(self, width: int, height: int, depth: int) -> MTLSize:
        """Return a size."""
        return MTLSize(width, height, depth)


class Device:
    """An MTLDevice; `lose` makes it fail from the next work on."""

    def __init__(self, memory: int, schedule: Schedule, seed: int, races: bool) -> None:
        """Have `memory` bytes for buffers."""
        self.schedule: Schedule = schedule
        self.seed = seed
        self.races = races
        self.lost = ""
        self._memory = memory
        self._taken = 0

    def lose(self, reason: str = "the device was removed") -> None:
        """Fail all work that is not done yet, for `reason`."""
        self.lost = reason

    def name(self) -> str:
        """Return what the device is called."""
        return "Imitated Metal device"

    def hasUnifiedMemory(self) -> bool:
        """Return whether the CPU has the same memory."""
        return True

    def recommendedMaxWorkingSetSize(self) -> int:
        """Return how many bytes all buffers may have."""
        return self._memory

    def maxBufferLength(self) -> int:
        """Return how many bytes a buffer may have."""
        return self._memory

    def currentAllocatedSize(self) -> int:
        """Return how many bytes all buffers have."""
        return self._taken

    def maxThreadgroupMemoryLength(self) -> int:
        """Return how many bytes a threadgroup may share."""
        return _MOST_THREADGROUP_BYTES

    def maxThreadsPerThreadgroup(self) -> MTLSize:
        """Return how many threads a threadgroup may have along each dimension."""
        return MTLSize(1024, 1024, 1024)

    def supportsFamily_(self, family: int) -> bool:
        """Return whether the device has what a family of devices has."""
        return True

    def newCommandQueue(self) -> CommandQueue:
        """Return a new queue."""
        return CommandQueue(self)

    def newLibraryWithSource_options_error_(
        self, source: str, options: CompileOptions | None, error: None
    ) -> tuple[CompiledLibrary | None, Error | None]:
        """Return the kernels of a text, or what is wrong with it."""
        try:
            return CompiledLibrary(compile(source)), None
        except MslError as wrong:
            return None, Error(str(wrong))

    def newComputePipelineStateWithFunction_error_(
        self, function: Function, error: None
    ) -> tuple[PipelineState | None, Error | None]:
        """Return a kernel made ready."""
        return PipelineState(function.library, function.kernel), None

    def newBufferWithLength_options_(self, length: int, options: int) -> Buffer | None:
        """Return zeros, None if there is too little memory."""
        if length < 1:
            raise MslError(f"a buffer of {length} bytes: expected at least one")
        return self._buffer(length)

    def newBufferWithBytes_length_options_(
        self, data: Any, length: int, options: int
    ) -> Buffer | None:
        """Return a copy of bytes, None if there is too little memory."""
        view = memoryview(data).cast("B")
        if not 0 < length <= len(view):
            raise MslError(f"a buffer of {length} bytes: {len(view)} are given")
        if made := self._buffer(length):
            made.memory.view[:] = view[:length]
        return made

    def newBufferWithBytesNoCopy_length_options_deallocator_(
        self, data: Any, length: int, options: int, deallocator: Callable[[Any, int], None] | None
    ) -> Buffer | None:
        """Return a buffer that is `data`; None unless it is whole pages."""
        view = memoryview(data).cast("B")
        if length > len(view):
            raise MslError(f"a buffer of {length} bytes: {len(view)} are given")
        if length % mmap.PAGESIZE or _address(view) % mmap.PAGESIZE:
            return None
        if made := self._buffer(length):
            made.outside = view[:length]
            made.memory.view[:] = view[:length]
        return made

    def _buffer(self, length: int) -> Buffer | None:
        if self._taken + length > self._memory:
            return None
        self._taken += length
        made = Buffer(Memory(length))
        finalize(made, self._give_back, length)
        return made

    def _give_back(self, length: int) -> None:
        self._taken -= length


def _address(view: memoryview) -> int:
    if view.readonly:
        return 0
    return ctypes.addressof(ctypes.c_char.from_buffer(view))
