"""The opaque things that calls give and take."""

from __future__ import annotations

import ctypes
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from lamina.testing.ptx.device import Device, Kernel, Loaded, Specification

Work = Callable[[], None]
"""What a stream or a graph has to do."""


class CUdevice(int):
    """The number of a device."""


class CUdeviceptr(int):
    """An address in the memory of a device."""


@dataclass(eq=False)
class CUcontext:
    """The primary context of a device: alive as long as it is retained."""

    ordinal: int
    specification: Specification
    device: Device
    retained: int = 0
    alive: bool = True
    allocations: set[int] = field(default_factory=set[int])
    default: CUstream | None = None


@dataclass(eq=False)
class Capture:
    """What streams do while they are captured, instead of doing it."""

    mode: int
    origin: CUstream
    work: list[Work] = field(default_factory=list[Work])
    invalid: bool = False
    streams: set[int] = field(default_factory=set[int])


@dataclass(eq=False)
class CUstream:
    """Work that is done in order, as late as a program can tell."""

    context: CUcontext
    blocking: bool
    queue: deque[Work] = field(default_factory=deque[Work])
    done: int = 0
    capture: Capture | None = None
    alive: bool = True

    @property
    def end(self) -> int:
        """How much work there was so far, done or not."""
        return self.done + len(self.queue)

    def advance(self) -> bool:
        """Do the next piece of work; tell whether there was one."""
        if not self.queue:
            return False
        work = self.queue.popleft()
        self.done += 1
        work()
        return True

    def reach(self, mark: int) -> None:
        """Do everything up to a mark."""
        while self.done < mark and self.advance():
            pass


@dataclass(eq=False)
class CUevent:
    """A place in a stream, and when it was passed."""

    stream: CUstream | None = None
    mark: int = 0
    capture: Capture | None = None
    seconds: float | None = None
    alive: bool = True

    @property
    def complete(self) -> bool:
        """Whether everything before it is done."""
        return self.stream is None or self.stream.done >= self.mark

    def passed(self) -> None:
        """Note the time."""
        self.seconds = time.perf_counter()


@dataclass(eq=False)
class CUgraph:
    """Work that was captured."""

    work: tuple[Work, ...]
    alive: bool = True


@dataclass(eq=False)
class CUgraphExec:
    """Work that can be launched as one."""

    work: tuple[Work, ...]
    alive: bool = True


@dataclass(eq=False)
class CUlibrary:
    """Code that is loaded; also a module."""

    loaded: Loaded
    context: CUcontext
    alive: bool = True


@dataclass(eq=False)
class CUkernel:
    """A kernel of loaded code; also a function."""

    kernel: Kernel
    library: CUlibrary


class CUtensorMap:
    """A description of a tensor, to be an argument of a kernel."""

    def __init__(self, octets: bytes) -> None:
        self._octets = ctypes.create_string_buffer(octets, len(octets))

    def getPtr(self) -> int:
        """Return where its bytes lie."""
        return ctypes.addressof(self._octets)

    def __bytes__(self) -> bytes:
        return self._octets.raw


@dataclass(eq=False)
class CUmemoryPool:
    """The pool that `cuMemAllocAsync` takes from."""

    context_of: int
    attributes: dict[int, int] = field(default_factory=dict[int, int])
