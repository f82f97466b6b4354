"""When dispatches began and were over, by a device's timestamps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np

from lamina.targets.base import Array
from lamina.targets.devices.noting import Times
from lamina.targets.webgpu.device import Device, errors_said

_MOST: Final = 2048
"""Dispatches that are timed at once: what a set of queries has room for is twice as many."""

_BYTES: Final = 8


class Clock:
    """Times dispatches on a device that has timestamps."""

    def __init__(self, device: Device) -> None:
        """Have no queries yet."""
        self._device = device

    def timed(self, dispatches: Sequence[Callable[[Any], None]]) -> Times:
        """Have dispatches made in passes of their own, wait, and return their times.

        Each is given the pass that it is to write itself to.
        """
        starts = range(0, len(dispatches), _MOST)
        parts = [self._ticks(dispatches[start : start + _MOST]) for start in starts]
        ticks = np.concatenate([np.zeros((0, 2), np.int64), *parts])
        since = ticks - ticks[:1, :1]
        return np.rint(since * self._device.period).astype(np.int64)

    def _ticks(self, dispatches: Sequence[Callable[[Any], None]]) -> Array:
        """Return the ticks at which each of a few dispatches began and was over, [n, 2]."""
        device, count = self._device, 2 * len(dispatches)
        queries, resolved = self._queries
        with errors_said(device):
            encoder = device.handle.create_command_encoder()
            for number, dispatch in enumerate(dispatches):
                writes = {
                    "query_set": queries,
                    "beginning_of_pass_write_index": 2 * number,
                    "end_of_pass_write_index": 2 * number + 1,
                }
                commands = encoder.begin_compute_pass(timestamp_writes=writes)
                dispatch(commands)
                commands.end()
            encoder.resolve_query_set(queries, 0, count, resolved, 0)
            device.handle.queue.submit([encoder.finish()])
            data = device.handle.queue.read_buffer(resolved, 0, count * _BYTES)
        return np.frombuffer(data, np.uint64).astype(np.int64).reshape(-1, 2)

    @cached_property
    def _queries(self) -> tuple[Any, Any]:
        """The queries, and a buffer that takes what they find."""
        import wgpu

        usage = wgpu.BufferUsage
        handle, count = self._device.handle, 2 * _MOST
        with errors_said(self._device):
            return handle.create_query_set(type="timestamp", count=count), handle.create_buffer(
                size=count * _BYTES, usage=int(usage.QUERY_RESOLVE | usage.COPY_SRC)
            )
