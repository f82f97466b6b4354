"""A device of an adapter: buffers, pipelines, and errors that say what is wrong."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from threading import RLock
from typing import Any, Final

import numpy as np

from lamina.errors import InputError, TargetUnavailable
from lamina.targets.base import Array
from lamina.targets.memory_limit import check_memory
from lamina.targets.webgpu.adapters import find_adapter
from lamina.targets.webgpu.windows import Storage

_SUBGROUP: Final = "subgroup"
"""The feature of shuffles among threads."""

_TIMESTAMPS: Final = "timestamp-query"
"""The feature of saying when a pass began and was over."""

_LIMITS: Final = (
    "max-buffer-size",
    "max-compute-invocations-per-workgroup",
    "max-compute-workgroup-size-x",
    "max-compute-workgroup-storage-size",
    "max-compute-workgroups-per-dimension",
    "max-storage-buffer-binding-size",
    "max-storage-buffers-per-shader-stage",
    "max-uniform-buffer-binding-size",
)
"""The limits that are asked for as high as the adapter has them."""

_PROBE: Final = """
@group(0) @binding(0) var<storage, read_write> found: array<u32>;
@compute @workgroup_size(64)
fn main($ARGUMENTS) {
  let a = bitcast<f32>(found[2]);
  found[0] = $SIZE;
  found[1] = select(0u, 1u, fma(a, a, -1.0f - 2.0f * (a - 1.0f)) != 0.0f);
}
"""
"""Says how many threads a subgroup has, and whether a product and sum are rounded once."""

_JUST_ABOVE_ONE: Final = 0x3F800001

_CHUNK: Final = 16 << 20


@cache
def open_device(adapter: str, bytes_bound: int = 0, bytes_held: int = 0) -> Device:
    """Return the device of an adapter (see `find_adapter`), opened once in a process.

    `bytes_bound` and `bytes_held` are the most that a binding and a buffer are to have, 0 for as
    much as the adapter allows.
    """
    return Device(find_adapter(adapter), bytes_bound, bytes_held)


def forget_devices() -> None:
    """Open devices anew when they are next asked for."""
    open_device.cache_clear()


class Device:
    """What runs kernels. Threads may share it: `lock` is held by whoever makes it work.

    A binding has at most `window` bytes, and a buffer `part` bytes, which are whole windows.
    `period` is how many ns a tick of its timestamps takes, 0 where it has none.
    """

    def __init__(self, adapter: Any, bytes_bound: int = 0, bytes_held: int = 0) -> None:
        """Open the adapter's device with what it has of what kernels can use, up to these bytes."""
        import wgpu

        features = [each for each in (_SUBGROUP, _TIMESTAMPS) if each in adapter.features]
        self.limits: dict[str, int] = {name: adapter.limits[name] for name in _LIMITS}
        self.alignment: int = max(
            adapter.limits["min-storage-buffer-offset-alignment"],
            adapter.limits["min-uniform-buffer-offset-alignment"],
        )
        self._limit("max-buffer-size", bytes_held)
        self._limit("max-storage-buffer-binding-size", bytes_bound)
        held, most = (
            self.limits[name] for name in ("max-buffer-size", "max-storage-buffer-binding-size")
        )
        self.window: int = min(held, most) // self.alignment * self.alignment
        self.part: int = held // self.window * self.window
        self.name: str = adapter.summary
        self.lock = RLock()
        self._host = adapter.info["adapter_type"] == "CPU"
        try:
            self.handle: Any = adapter.request_device_sync(
                required_features=features, required_limits=self.limits
            )
        except Exception as error:
            raise TargetUnavailable(f"webgpu cannot open {self.name}: {error}") from None
        usage = wgpu.BufferUsage
        self._storage = int(usage.STORAGE | usage.COPY_SRC | usage.COPY_DST)
        self._words = int(usage.UNIFORM | usage.COPY_DST)
        self._staging = int(usage.MAP_READ | usage.COPY_DST)
        self.period: float = _period(self.handle.queue) if _TIMESTAMPS in features else 0.0
        self.subgroup, self.fused = self._probe(subgroups=_SUBGROUP in features)

    def storage(self, size: int) -> Storage:
        """Return memory of `size` bytes, rounded up to whole words, for kernels.

        Raises InputError where there is not as much.
        """
        size, parts = _words(size), list[Any]()
        if self._host:
            check_memory("webgpu", size)
        try:
            for start in range(0, size, self.part):
                parts.append(self._buffer(min(self.part, size - start), self._storage))
        except InputError:
            for part in parts:
                part.destroy()
            raise
        return Storage(tuple(parts), self.part, size)

    def staging(self, size: int) -> Any:
        """Return a buffer of `size` bytes that can be read here."""
        return self._buffer(_words(size), self._staging)

    def uniform(self, data: Array) -> Any:
        """Return a buffer of words that kernels are given."""
        buffer = self._buffer(data.nbytes, self._words)
        self.handle.queue.write_buffer(buffer, 0, data)
        return buffer

    def write(self, buffer: Storage, array: Array, offset: int = 0) -> None:
        """Write an array's bytes; what fills its last word is 0."""
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        if before := offset % 4:
            offset -= before
            data = np.concatenate([self.read(buffer, offset, before), data])
        done = 0
        with errors_said(self):
            for part, start, size in buffer.pieces(offset, data.size, _CHUNK):
                given = data[done : done + size]
                if size % 4:
                    given = np.concatenate([given, np.zeros(-size % 4, np.uint8)])
                self.handle.queue.write_buffer(part, start, given)
                done += size

    def read(self, buffer: Storage, offset: int, size: int) -> Array:
        """Return `size` bytes of a buffer from byte `offset` on."""
        before = offset % 4
        with errors_said(self):
            found = [
                np.frombuffer(self.handle.queue.read_buffer(*each), np.uint8)
                for each in buffer.pieces(offset - before, _words(before + size) if size else 0)
            ]
        data = np.concatenate([np.zeros(0, np.uint8), *found])
        return data[before : before + size]

    def copy(self, source: Storage, target: Storage, size: int, times: int) -> None:
        """Copy the first bytes of a buffer to another, so many times, and wait for that."""
        with errors_said(self):
            encoder = self.handle.create_command_encoder()
            for _ in range(times):
                pairs = zip(source.pieces(0, size), target.pieces(0, size), strict=True)
                for (piece, start, length), (to, begin, _) in pairs:
                    encoder.copy_buffer_to_buffer(piece, start, to, begin, length)
            self.handle.queue.submit([encoder.finish()])
        self.read(target, 0, 4)

    def pipeline(self, code: str, layout: Any, name: str) -> Any:
        """Return the pipeline of a kernel in WGSL."""
        with errors_said(self):
            module = self.handle.create_shader_module(code=code, label=name)
            whole = self.handle.create_pipeline_layout(bind_group_layouts=[layout])
            return self.handle.create_compute_pipeline(
                layout=whole, compute={"module": module, "entry_point": "main"}
            )

    def _limit(self, name: str, most: int) -> None:
        self.limits[name] = min(most or self.limits[name], self.limits[name])

    def _buffer(self, size: int, usage: int) -> Any:
        limit = self.limits["max-buffer-size"]
        if size > limit:
            raise InputError(
                f"webgpu needs {size} bytes in one buffer, {self.name} gives at most {limit}: "
                f"{size - limit} bytes are missing, so use smaller inputs"
            )
        if self._host:
            check_memory("webgpu", size)
        with errors_said(self, size):
            return self.handle.create_buffer(size=size, usage=usage)

    def _probe(self, *, subgroups: bool) -> tuple[int, bool]:
        """Return the threads of a subgroup, 0 without any, and whether `fma` is rounded once."""
        argument = "@builtin(subgroup_size) size: u32" if subgroups else ""
        code = _PROBE.replace("$ARGUMENTS", argument)
        code = code.replace("$SIZE", "size" if subgroups else "0u")
        buffer = self.storage(12)
        self.write(buffer, np.array([0, 0, _JUST_ABOVE_ONE], np.uint32))
        layout = self.handle.create_bind_group_layout(
            entries=[{"binding": 0, "visibility": 4, "buffer": {"type": "storage"}}]
        )
        pipeline = self.pipeline(code, layout, "probe")
        resource = {"buffer": buffer.parts[0], "offset": 0, "size": 12}
        group = self.handle.create_bind_group(
            layout=layout, entries=[{"binding": 0, "resource": resource}]
        )
        encoder = self.handle.create_command_encoder()
        run = encoder.begin_compute_pass()
        run.set_pipeline(pipeline)
        run.set_bind_group(0, group)
        run.dispatch_workgroups(1)
        run.end()
        self.handle.queue.submit([encoder.finish()])
        size, fused, _ = self.read(buffer, 0, 12).view(np.uint32).tolist()
        return size, bool(fused)


@contextmanager
def errors_said(device: Device, size: int = 0) -> Generator[None]:
    """Turn what wgpu raises inside into errors of ours; `size` bytes are asked for there.

    Raises InputError where memory is missing, TargetUnavailable where the device was lost or
    refuses.
    """
    import wgpu

    try:
        yield
    except wgpu.GPUOutOfMemoryError:
        raise InputError(
            f"{device.name} has no memory for {size} bytes more: use smaller inputs"
        ) from None
    except wgpu.GPUError as error:
        if "lost" in str(error):
            forget_devices()
            raise TargetUnavailable(
                f"{device.name} was lost, and what was on it: compile the model again"
            ) from None
        raise TargetUnavailable(f"{device.name} refuses: {_reason(error)}") from None


def _period(queue: Any) -> float:
    from wgpu.backends.wgpu_native import extras

    # What a browser does itself, wgpu leaves to whoever reads timestamps.
    return float(extras.lib.wgpuQueueGetTimestampPeriod(queue._internal))


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return "; ".join(lines[-3:])


def _words(size: int) -> int:
    return max(4, -(-size // 4) * 4)
