"""A CUDA device: memory, a stream of work, and errors that say what is wrong."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from itertools import count
from threading import Lock, RLock
from typing import Any, Final, Self

import numpy as np

from lamina.errors import InputError, TargetUnavailable
from lamina.targets.base import Array
from lamina.targets.cuda.branches import Branches
from lamina.targets.cuda.driver import LOST, NO_MEMORY, Refusal, called, load_driver
from lamina.targets.cuda.staging import Staging

_ALIGNMENT: Final = 256

_ATTRIBUTES: Final = {
    "major": "COMPUTE_CAPABILITY_MAJOR",
    "minor": "COMPUTE_CAPABILITY_MINOR",
    "multiprocessors": "MULTIPROCESSOR_COUNT",
    "most_shared": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "most_threads": "MAX_THREADS_PER_BLOCK",
    "pools": "MEMORY_POOLS_SUPPORTED",
}
"""What is asked of a device, and how the driver calls it."""

_OPEN: Final[dict[int, CudaDevice]] = {}
_OPENING: Final = Lock()


def open_device(index: int) -> CudaDevice:
    """Return a device by its number, opened once in a process, and anew after it was lost.

    Raises TargetUnavailable where there is no driver, or no such device.
    """
    with _OPENING:
        known = _OPEN.get(index)
        if known is None or known.closed:
            known = _OPEN[index] = CudaDevice(load_driver(), index)
        return known


class CudaDevice:
    """What runs kernels, in the order in which it is given them.

    Threads may share it: `lock` is held by whoever makes it work. All that is made on it is given
    back when its owner is gone, or when the device is closed or lost.
    """

    def __init__(self, driver: Any, index: int) -> None:
        """Open device `index` of a driver, which has the calls of `cuda.bindings.driver`."""
        self.driver = driver
        self.closed = ""
        self.capturing = False
        self._turn = RLock()
        self._made: dict[int, tuple[str, tuple[Any, ...]]] = {}
        self._numbers = count()
        self._gone: list[int] = []
        self.handle = _find(driver, index)
        facts = {key: self._attribute(name) for key, name in _ATTRIBUTES.items()}
        self.capability: tuple[int, int] = (facts["major"], facts["minor"])
        self.multiprocessors: int = facts["multiprocessors"]
        self.most_shared: int = facts["most_shared"]
        self.most_threads: int = facts["most_threads"]
        self.name = f"{_name(driver, self.handle)} (cuda device {index})"
        try:
            self._context: Any = called(driver, "cuDevicePrimaryCtxRetain", self.handle)
        except Refusal as refusal:
            raise TargetUnavailable(f"{self.name} cannot be opened: {refusal}") from None
        try:
            self._make_ready(pools=bool(facts["pools"]))
        except BaseException:
            if not self.closed:
                self.lose(f"{self.name} was not opened whole")
            raise

    def _make_ready(self, *, pools: bool) -> None:
        with self.lock:
            flags = self.driver.CUstream_flags.CU_STREAM_NON_BLOCKING
            self.stream: Any = self.call("cuStreamCreate", int(flags))
            self._pool = self._open_pool() if pools else None
            self._staging = Staging(self)
            self.branches = Branches(self)

    @property
    def lock(self) -> Self:
        """Keeps other threads away, and has the driver work on this device."""
        return self

    def __enter__(self) -> Self:
        """Take the lock; TargetUnavailable where the device was lost or closed."""
        self._turn.acquire()
        try:
            if self.closed:
                raise TargetUnavailable(self.closed)
            self.call("cuCtxSetCurrent", self._context)
            self._give_back()
        except BaseException:
            self._turn.release()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of the lock."""
        self._turn.release()

    def call(self, name: str, *arguments: Any) -> Any:
        """Return what a call of the driver gives: nothing, a value, or a tuple of values.

        Raises InputError where memory is missing, TargetUnavailable where the device is lost, or
        refuses.
        """
        try:
            return called(self.driver, name, *arguments)
        except Refusal as refusal:
            raise self.error(refusal) from None

    def storage(self, size: int) -> CudaBuffer:
        """Return a buffer of `size` bytes; InputError says how many are missing."""
        size = max(_ALIGNMENT, -(-size // _ALIGNMENT) * _ALIGNMENT)
        try:
            return CudaBuffer(self, self._allocated(size), size)
        except Refusal as refusal:
            if refusal.status != NO_MEMORY:
                raise self.error(refusal) from None
        self._trim()
        try:
            return CudaBuffer(self, self._allocated(size), size)
        except Refusal as refusal:
            raise self.error(refusal, size) from None

    def check_room(self, what: str, size: int) -> None:
        """Raise InputError where `what` needs more bytes, `size`, than are free."""
        self._trim()
        free, total = self.call("cuMemGetInfo")
        if size > free:
            raise InputError(f"there is no memory for {what}: {self._missing(size, free, total)}")

    def write(self, buffer: CudaBuffer, array: Array, offset: int = 0) -> None:
        """Write an array's bytes, from a byte of the buffer on."""
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self._staging.send(buffer.address + offset, data)

    def read(self, buffer: CudaBuffer, offset: int, size: int) -> Array:
        """Return `size` bytes of a buffer from byte `offset` on, after all work that was given."""
        data = np.empty(size, np.uint8)
        self._staging.receive(buffer.address + offset, data)
        return data

    def copy(self, source: CudaBuffer, target: CudaBuffer, size: int, times: int) -> None:
        """Copy the first bytes of a buffer to another, so many times, and wait for that."""
        for _ in range(times):
            self.call("cuMemcpyDtoDAsync", target.address, source.address, size, self.stream)
        self.wait()

    def wait(self) -> None:
        """Wait until all work is done."""
        self.call("cuStreamSynchronize", self.stream)

    def own(self, owner: object, release: str, *arguments: Any) -> weakref.finalize[..., Any]:
        """Have the driver's call `release` made once `owner` is gone, or what is returned called.

        It is made at once where nobody has the device, else by whoever takes it next.
        """
        number = next(self._numbers)
        self._made[number] = (release, arguments)
        last = weakref.finalize(owner, self._drop, number)
        last.atexit = False
        return last

    def close(self) -> None:
        """Give back all that was made on the device."""
        if not self.closed:
            with self:
                self.lose(f"{self.name} was closed: compile the model again")

    def lose(self, reason: str) -> None:
        """Give back what can be, and refuse all that comes for this reason."""
        self.closed = reason
        for name, arguments in (*reversed(self._made.values()), *self._last_calls()):
            # What is lost may refuse to be given back.
            getattr(self.driver, name)(*arguments)
        self._made.clear()
        self._gone.clear()

    def _last_calls(self) -> list[tuple[str, tuple[Any, ...]]]:
        stream = getattr(self, "stream", None)
        ends = [("cuStreamDestroy", (stream,))] if stream is not None else []
        return [*ends, ("cuDevicePrimaryCtxRelease", (self.handle,))]

    def _drop(self, number: int) -> None:
        self._gone.append(number)
        # Never waits: an owner may be found gone in the middle of anything.
        if self._turn.acquire(blocking=False):
            try:
                if not self.closed:
                    # Another device may be at work in this thread.
                    before = called(self.driver, "cuCtxGetCurrent")
                    called(self.driver, "cuCtxSetCurrent", self._context)
                    self._give_back()
                    called(self.driver, "cuCtxSetCurrent", before)
            except Refusal:
                pass
            finally:
                self._turn.release()

    def _give_back(self) -> None:
        # Between the calls of a graph that is made, these would become a part of it.
        while self._gone and not self.capturing:
            name, arguments = self._made.pop(self._gone.pop(), ("", ()))
            if name:
                getattr(self.driver, name)(*arguments)

    def _allocated(self, size: int) -> int:
        if self._pool is None:
            return int(called(self.driver, "cuMemAlloc", size))
        return int(called(self.driver, "cuMemAllocAsync", size, self.stream))

    @property
    def release_of_memory(self) -> tuple[str, tuple[Any, ...]]:
        """The call that gives memory back, and what it takes after the address."""
        return ("cuMemFree", ()) if self._pool is None else ("cuMemFreeAsync", (self.stream,))

    def _open_pool(self) -> Any:
        pool = self.call("cuDeviceGetDefaultMemPool", self.handle)
        attribute = self.driver.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        keep = 2**64 - 1
        kind = getattr(self.driver, "cuuint64_t", int)
        self.call("cuMemPoolSetAttribute", pool, attribute, kind(keep))
        return pool

    def _trim(self) -> None:
        """Have what was given back, and is kept for later, be free."""
        self.wait()
        if self._pool is not None:
            self.call("cuMemPoolTrimTo", self._pool, 0)

    def _attribute(self, name: str) -> int:
        kind = getattr(self.driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self.call("cuDeviceGetAttribute", kind, self.handle))

    def error(self, refusal: Refusal, size: int = 0) -> Exception:
        """Return what is to be raised for a refusal; `size` bytes were asked for."""
        name = getattr(self, "name", "cuda")
        if refusal.status in LOST:
            self.lose(
                f"{name} was lost ({refusal.status}), and what was on it: compile the model again"
            )
            return TargetUnavailable(self.closed)
        if refusal.status == NO_MEMORY:
            status, free, total = self.driver.cuMemGetInfo()
            known = self._missing(size, free, total) if size and status == 0 else str(refusal)
            return InputError(f"there is no memory: {known}")
        return TargetUnavailable(f"{name} refuses: {refusal}")

    def _missing(self, size: int, free: int, total: int) -> str:
        if size <= free:
            return f"{self.name} has {free} of its {total} bytes free, but not {size} in one piece"
        return (
            f"{self.name} has {free} of its {total} bytes free, {size} are needed: "
            f"{size - free} bytes are missing"
        )


class CudaBuffer:
    """Memory on a device, given back when nobody has it any more."""

    def __init__(self, device: CudaDevice, address: int, size: int) -> None:
        """Own the memory at an address."""
        self.address = address
        self.size = size
        release, rest = device.release_of_memory
        self._end = device.own(self, release, address, *rest)

    def destroy(self) -> None:
        """Give it back; nothing may use it any more."""
        self._end()


def _find(driver: Any, index: int) -> Any:
    try:
        called(driver, "cuInit", 0)
        number = int(called(driver, "cuDeviceGetCount"))
    except Refusal as refusal:
        raise TargetUnavailable(f"cuda finds no device: the driver says {refusal.status}") from None
    if 0 <= index < number:
        return called(driver, "cuDeviceGet", index)
    names = [_name(driver, called(driver, "cuDeviceGet", n)) for n in range(number)]
    raise TargetUnavailable(
        f"cuda has no device {index}: expected the number of one of these "
        f"({_listed(names) or 'there is none'})"
    )


def _listed(names: Sequence[str]) -> str:
    return "; ".join(f"{n}: {name}" for n, name in enumerate(names))


def _name(driver: Any, handle: Any) -> str:
    found: bytes = called(driver, "cuDeviceGetName", 256, handle)
    return found.split(b"\0")[0].decode("utf-8", "replace").strip()
