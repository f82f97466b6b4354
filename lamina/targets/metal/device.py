"""A device of Metal: buffers, pipelines, and errors that say what is wrong.

The module `Metal`, of pyobjc, is given to a `Device`, so that another can stand for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from threading import RLock
from typing import Any, Final, cast

import numpy as np

from lamina.errors import InputError, TargetUnavailable
from lamina.targets.base import Array
from lamina.targets.devices.noting import Times

_SAFE: Final = 0
"""MTLMathModeSafe, which older releases of pyobjc do not name."""

Pool = Callable[[], AbstractContextManager[Any]]
"""Gives back at its end what Metal lent inside; without one, that of a thread is kept for ever."""

AUTO: Final = "auto"
"""The device that the system chooses."""


@cache
def open_device(which: str) -> Device:
    """Return a device of this machine by its number, or the system's choice for "auto".

    It is opened once in a process. Raises TargetUnavailable where there is none.
    """
    metal = metal_module()
    import objc  # pyright: ignore[reportMissingImports]

    pool = cast("Any", objc).autorelease_pool
    return Device(metal, which, pool)


def metal_module() -> Any:
    """Return the module `Metal` of pyobjc; TargetUnavailable where it cannot be had."""
    if sys.platform != "darwin":
        raise TargetUnavailable(
            f"metal runs on macOS only, and this machine has {sys.platform}: its kernels can be "
            "compiled to an artifact here, and run on a Mac"
        )
    try:
        import Metal  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise TargetUnavailable(
            "metal needs the package pyobjc-framework-Metal: install it with "
            "pip install 'lamina[metal]'"
        ) from None
    return Metal  # pyright: ignore[reportUnknownVariableType]


@dataclass(eq=False)
class Buffer:
    """Memory that the CPU and the GPU both have: `handle` is its MTLBuffer."""

    handle: Any
    size: int

    def destroy(self) -> None:
        """Give it back; nothing may use it any more."""
        self.handle = None

    def bytes(self) -> Array:
        """Return the memory itself, [size] u8."""
        return np.frombuffer(self.handle.contents().as_buffer(self.size), np.uint8)


@dataclass(frozen=True)
class Command:
    """A dispatch as Metal takes it: pipeline, what is bound, the kernel's words, grid and threads.

    `buffers` are bound in order from 0 on, each from a byte on; the words lie at `words_at`.
    """

    pipeline: Any
    buffers: tuple[tuple[int, Buffer, int], ...]
    words: bytes
    words_at: int
    grid: tuple[int, int, int]
    threads: int


class Device:
    """What runs kernels. Threads may share it: `lock` is held by whoever makes it work."""

    def __init__(self, metal: Any, which: str = AUTO, pool: Pool = nullcontext) -> None:
        """Open a device of the module `metal`, whose objects are lent by a `pool`."""
        self._metal = metal
        self._pool = pool
        self._handle = _find(metal, which)
        self.name = str(self._handle.name())
        self.lock = RLock()
        self._queue = self._handle.newCommandQueue()
        if self._queue is None:
            raise TargetUnavailable(f"metal cannot open {self.name}: it gives no command queue")

    def storage(self, size: int) -> Buffer:
        """Return a buffer of at least `size` bytes; InputError says how many are missing."""
        size = max(16, -(-size // 16) * 16)
        limit = self._handle.maxBufferLength()
        if size > limit:
            raise InputError(
                f"metal needs {size} bytes in one buffer, {self.name} gives at most {limit}: "
                f"{size - limit} bytes are missing, so use smaller inputs"
            )
        handle = self._handle.newBufferWithLength_options_(
            size, self._metal.MTLResourceStorageModeShared
        )
        if handle is None:
            free = self._handle.recommendedMaxWorkingSetSize() - self._handle.currentAllocatedSize()
            raise InputError(
                f"{self.name} has no memory for {size} bytes more: "
                f"{max(1, size - max(0, free))} bytes are missing, so use smaller inputs"
            )
        return Buffer(handle, size)

    def write(self, buffer: Buffer, array: Array, offset: int = 0) -> None:
        """Write an array's bytes, from a byte of the buffer on."""
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        buffer.bytes()[offset : offset + data.size] = data

    def read(self, buffer: Buffer, offset: int, size: int) -> Array:
        """Return `size` bytes of a buffer from byte `offset` on, as a new array [size] of u8."""
        return buffer.bytes()[offset : offset + size].copy()

    def pipelines(self, text: str, functions: Sequence[str]) -> list[Any]:
        """Return the pipelines of kernels of a library in Metal's language.

        Raises TargetUnavailable with what the compiler says against it.
        """
        metal = self._metal
        options = metal.MTLCompileOptions.alloc().init()
        options.setLanguageVersion_(metal.MTLLanguageVersion3_1)
        # Nothing may be rearranged; macOS before 15 knows only the older name.
        if hasattr(options, "setMathMode_"):
            options.setMathMode_(_SAFE)
        else:
            options.setFastMathEnabled_(False)
        library, error = self._handle.newLibraryWithSource_options_error_(text, options, None)
        if library is None:
            raise TargetUnavailable(f"{self.name} refuses the kernels: {_said(error)}")
        made: list[Any] = []
        for name in functions:
            state, error = self._handle.newComputePipelineStateWithFunction_error_(
                library.newFunctionWithName_(name), None
            )
            if state is None:
                raise TargetUnavailable(f"{self.name} refuses {name}: {_said(error)}")
            made.append(state)
        return made

    @property
    def threadgroup_bytes(self) -> int:
        """The memory that the threads of a block may share."""
        return self._handle.maxThreadgroupMemoryLength()

    def run(self, commands: Sequence[Command]) -> None:
        """Run dispatches one after the other, and wait for the last one.

        Raises TargetUnavailable where the device fails.
        """
        if commands:
            with self._pool():
                self._wait(self._begin(commands))

    def timed(self, commands: Sequence[Command]) -> Times:
        """Run dispatches as command buffers of their own, and return the times of these."""
        with self._pool():
            works = [self._begin([each]) for each in commands]
            for each in works:
                self._wait(each)
            seconds = [(each.GPUStartTime(), each.GPUEndTime()) for each in works]
        return np.rint(np.array(seconds).reshape(-1, 2) * 1e9).astype(np.int64)

    def copy(self, source: Buffer, target: Buffer, size: int, times: int) -> None:
        """Copy the first bytes of a buffer to another, so many times, and wait for that."""
        with self._pool():
            work = self._queue.commandBuffer()
            encoder = work.blitCommandEncoder()
            for _ in range(times):
                encoder.copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size_(
                    source.handle, 0, target.handle, 0, size
                )
            encoder.endEncoding()
            work.commit()
            self._wait(work)

    def _begin(self, commands: Sequence[Command]) -> Any:
        """Return a command buffer on its way."""
        work = self._queue.commandBuffer()
        # Of the serial kind: each dispatch sees what the one before it wrote.
        encoder = work.computeCommandEncoder()
        for each in commands:
            self._encode(encoder, each)
        encoder.endEncoding()
        work.commit()
        return work

    def _wait(self, work: Any) -> None:
        work.waitUntilCompleted()
        if work.status() != self._metal.MTLCommandBufferStatusCompleted:
            open_device.cache_clear()
            raise TargetUnavailable(
                f"{self.name} failed, and what was on it is lost: {_said(work.error())}; "
                "compile the model again"
            )

    def _encode(self, encoder: Any, command: Command) -> None:
        encoder.setComputePipelineState_(command.pipeline)
        for index, buffer, offset in command.buffers:
            encoder.setBuffer_offset_atIndex_(buffer.handle, offset, index)
        if command.words:
            encoder.setBytes_length_atIndex_(command.words, len(command.words), command.words_at)
        size = self._metal.MTLSizeMake
        encoder.dispatchThreadgroups_threadsPerThreadgroup_(
            size(*command.grid), size(command.threads, 1, 1)
        )


def _find(metal: Any, which: str) -> Any:
    if which == AUTO:
        if (device := metal.MTLCreateSystemDefaultDevice()) is None:
            raise TargetUnavailable("metal finds no device on this machine")
        return device
    found = metal.MTLCopyAllDevices()
    if not which.isascii() or not which.isdecimal() or int(which) >= len(found):
        known = "; ".join(f"{n}: {each.name()}" for n, each in enumerate(found)) or "none"
        raise TargetUnavailable(
            f"metal has no device {which!r}: expected auto or a number of these ({known})"
        )
    return found[int(which)]


def _said(error: Any) -> str:
    text = "no reason is given" if error is None else str(error.localizedDescription())
    return "; ".join(line.strip() for line in text.splitlines() if line.strip())
