"""What one caller has on a WebGPU device: bind groups for the dispatches of some shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lamina.errors import InputError
from lamina.targets.base import Array
from lamina.targets.devices.session import DeviceSession
from lamina.targets.devices.steps import Output, Places, Step
from lamina.targets.plans.dispatches import Dispatch
from lamina.targets.plans.plan_tables import FIRST_ARRAY
from lamina.targets.webgpu.compiled_kernels import folded
from lamina.targets.webgpu.device import errors_said

if TYPE_CHECKING:
    from lamina.targets.webgpu.executable import WebGpuExecutable


@dataclass(frozen=True)
class _Ready:
    """A dispatch as commands: pipeline, what is bound, grid."""

    pipeline: Any
    group: Any
    grid: tuple[int, int, int]


@dataclass(frozen=True)
class _Run:
    """Dispatches as commands, and the words that they are given."""

    commands: tuple[_Ready, ...]
    words: object


class WebGpuSession(DeviceSession[Any, _Run]):
    """Memory for one call after another, by one thread at a time."""

    def __init__(self, executable: WebGpuExecutable) -> None:
        """Begin with no memory."""
        device = executable.device
        super().__init__(
            executable.signature, executable.plan, device, executable.packed, executable.hosts
        )
        self._kernels = executable.kernels
        self._device = device
        self._failed = device.storage(4)
        self._staging = device.staging(4)

    def _make_ready(
        self, runs: Sequence[Sequence[Dispatch]], places: Places[Any], outputs: Sequence[Output]
    ) -> tuple[_Run, ...]:
        return tuple(self._run(tasks, places) for tasks in runs)

    def _run(self, tasks: Sequence[Dispatch], places: Places[Any]) -> _Run:
        bound = [self._windows(task, places) for task in tasks]
        words = [
            self._kernels[task.kernel].words(task, [offset for _, _, _, offset in windows])
            for task, windows in zip(tasks, bound, strict=True)
        ]
        step = self._device.alignment // 4
        sizes = [-(-each.size // step) * step for each in words]
        starts = np.cumsum([0, *sizes])
        table = np.zeros(max(4, int(starts[-1])), np.int32)
        for start, each in zip(starts, words, strict=False):
            table[start : start + each.size] = each
        uniform = self._device.uniform(table)
        made = tuple(
            self._group(task, windows, (uniform, int(start) * 4, each.nbytes))
            for task, windows, start, each in zip(tasks, bound, starts, words, strict=False)
        )
        return _Run(made, uniform)

    def _windows(self, task: Dispatch, places: Places[Any]) -> list[tuple[Any, int, int, int]]:
        """Return for each memref what is bound: buffer, start, size, and the bytes before it.

        InputError for a memref that is larger than what can be bound.
        """
        device, kernel = self._device, self._kernels[task.kernel]
        limit = device.limits["max-storage-buffer-binding-size"]
        windows: list[tuple[Any, int, int, int]] = []
        for (base, offset), span in zip(task.memrefs, kernel.spans(task), strict=True):
            buffer, _ = places[base]
            start = offset // device.alignment * device.alignment
            # An empty array may begin where its buffer ends.
            start = min(start, (buffer.size - 4) // device.alignment * device.alignment)
            size = max(4, -(-(offset - start + span) // 4) * 4)
            if size > limit:
                raise InputError(
                    f"kernel {kernel.text.name} needs {size} bytes of one array, {device.name} "
                    f"gives at most {limit}: use smaller inputs"
                )
            size = min(size, buffer.size - start)
            windows.append((buffer, start, size, offset - start))
        return windows

    def _group(
        self,
        task: Dispatch,
        windows: Sequence[tuple[Any, int, int, int]],
        words: tuple[Any, int, int],
    ) -> _Ready:
        kernel = self._kernels[task.kernel]
        bound = [words, *((buffer, start, size) for buffer, start, size, _ in windows)]
        if kernel.text.checks:
            bound.append((self._failed, 0, 4))
        entries = [
            {"binding": n, "resource": {"buffer": buffer, "offset": start, "size": size}}
            for n, (buffer, start, size) in enumerate(bound)
        ]
        with errors_said(self._device):
            group = self._device.handle.create_bind_group(layout=kernel.layout, entries=entries)
        most = self._device.limits["max-compute-workgroups-per-dimension"]
        return _Ready(kernel.pipeline, group, folded(task.grid, most))

    def _begin(self, step: Step[Any, _Run], inputs: Sequence[Array]) -> None:
        for n, array in enumerate(inputs):
            self._device.write(self._buffers[FIRST_ARRAY + n], array)
        self._device.write(self._failed, np.zeros(1, np.uint32))

    def _submit(self, run: _Run) -> None:
        self._send(run)

    def _send(self, run: _Run, copies: Sequence[tuple[Any, int, int]] = ()) -> None:
        """Run dispatches, then copy (buffer, place in the staging buffer, bytes)."""
        with errors_said(self._device):
            encoder = self._device.handle.create_command_encoder()
            if run.commands:
                commands = encoder.begin_compute_pass()
                for each in run.commands:
                    commands.set_pipeline(each.pipeline)
                    commands.set_bind_group(0, each.group)
                    commands.dispatch_workgroups(*each.grid)
                commands.end()
            for buffer, place, size in copies:
                encoder.copy_buffer_to_buffer(buffer, 0, self._staging, place, size)
            self._device.handle.queue.submit([encoder.finish()])

    def _finish(self, step: Step[Any, _Run]) -> tuple[int, dict[str, Array]]:
        copies, end = [(self._failed, 0, 4)], 8
        starts: list[int] = []
        for output in step.outputs:
            size = -(-output.nbytes // 4) * 4
            copies += [(self._buffers[output.base], end, size)] if size else []
            starts.append(end)
            end += -(-size // 8) * 8
        if self._staging.size < end:
            self._staging.destroy()
            self._staging = self._device.staging(2 * end)
        self._send(step.runs[-1], copies)
        with errors_said(self._device):
            self._staging.map_sync("READ", 0, end)
            data = np.frombuffer(self._staging.read_mapped(0, end), np.uint8)
            self._staging.unmap()
        found = {
            output.name: data[start : start + output.nbytes]
            .view(output.dtype)
            .reshape(output.shape)
            for output, start in zip(step.outputs, starts, strict=True)
        }
        return int(data[:4].view(np.uint32)[0]), found
