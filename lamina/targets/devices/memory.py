"""What a session needs of a device: memory of its own, and a way to and from it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from lamina.targets.base import Array


class Buffer(Protocol):
    """Memory on a device."""

    @property
    def size(self) -> int:
        """Its bytes."""
        ...

    def destroy(self) -> None:
        """Give it back; nothing may use it any more."""
        ...


B = TypeVar("B", bound=Buffer)
"""A device's buffers."""


class DeviceMemory(Protocol[B]):
    """A device as sessions see it: `lock` is held by whoever makes it work."""

    @property
    def name(self) -> str:
        """What the device is called in messages."""
        ...

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Keeps other threads away; raises TargetUnavailable where the device is lost."""
        ...

    def storage(self, size: int) -> B:
        """Return a buffer of at least `size` bytes; InputError says how many are missing."""
        ...

    def write(self, buffer: B, array: Array, offset: int = 0) -> None:
        """Write an array's bytes, from a byte of the buffer on."""
        ...

    def read(self, buffer: B, offset: int, size: int) -> Array:
        """Return `size` bytes of a buffer from byte `offset` on, as a new array [size] of u8."""
        ...

    def copy(self, source: B, target: B, size: int, times: int) -> None:
        """Copy the first bytes of a buffer to another, so many times, and wait for that."""
        ...
