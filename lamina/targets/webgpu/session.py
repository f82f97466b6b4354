"""What one caller has on a WebGPU device: bind groups for the dispatches of some shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from lamina.errors import InputError
from lamina.targets.base import Array
from lamina.targets.devices.noting import Times
from lamina.targets.devices.session import DeviceSession
from lamina.targets.devices.steps import Output, Places, Step, array_name
from lamina.targets.plans.dispatches import Dispatch
from lamina.targets.plans.plan_tables import FIRST_ARRAY
from lamina.targets.webgpu.clock import Clock
from lamina.targets.webgpu.compiled_kernels import folded
from lamina.targets.webgpu.device import errors_said
from lamina.targets.webgpu.windows import Bound, Storage, Window, bound

if TYPE_CHECKING:
    from lamina.targets.webgpu.executable import WebGpuExecutable


@dataclass(frozen=True)
class _Ready:
    """A dispatch as commands: pipeline, what is bound, grid."""

    pipeline: Any
    group: Any
    grid: tuple[int, int, int]

    def encode(self, commands: Any) -> None:
        """Write it to a pass."""
        commands.set_pipeline(self.pipeline)
        commands.set_bind_group(0, self.group)
        commands.dispatch_workgroups(*self.grid)


@dataclass(frozen=True)
class _Run:
    """Dispatches as commands, and the words that they are given."""

    commands: tuple[_Ready, ...]
    words: object


class WebGpuSession(DeviceSession[Storage, _Run]):
    """Memory for one call after another, by one thread at a time."""

    def __init__(self, executable: WebGpuExecutable) -> None:
        """Begin with no memory."""
        device = executable.device
        super().__init__(executable)
        self.clocked = device.period > 0
        self._clock = Clock(device)
        self._kernels = executable.code
        self._device = device
        self._failed = device.storage(4)
        self._staging = device.staging(4)

    def _make_ready(
        self,
        runs: Sequence[Sequence[Dispatch]],
        places: Places[Storage],
        outputs: Sequence[Output],
    ) -> tuple[_Run, ...]:
        return tuple(self._run(tasks, places) for tasks in runs)

    def _run(self, tasks: Sequence[Dispatch], places: Places[Storage]) -> _Run:
        found = [self._bound(task, places) for task in tasks]
        words = [
            self._kernels[task.kernel].words(task, [each.before for each in memrefs])
            for task, memrefs in zip(tasks, found, strict=True)
        ]
        step = self._device.alignment // 4
        sizes = [-(-each.size // step) * step for each in words]
        starts = np.cumsum([0, *sizes])
        table = np.zeros(max(4, int(starts[-1])), np.int32)
        for start, each in zip(starts, words, strict=False):
            table[start : start + each.size] = each
        uniform = self._device.uniform(table)
        made = tuple(
            self._ready(task, memrefs, Window(uniform, int(start) * 4, each.nbytes))
            for task, memrefs, start, each in zip(tasks, found, starts, words, strict=False)
        )
        return _Run(made, uniform)

    def _bound(self, task: Dispatch, places: Places[Storage]) -> list[Bound]:
        """Return the windows on each memref; InputError where they are more than can be bound."""
        device, kernel = self._device, self._kernels[task.kernel]
        spans, found = kernel.spans(task), list[Bound]()
        for (base, offset), span in zip(task.memrefs, spans, strict=True):
            storage, start = places[base]
            found.append(bound(storage, start + offset, span, device.window, device.alignment))
        needed = kernel.buffers([len(each.windows) for each in found])
        if needed > (most := device.limits["max-storage-buffers-per-shader-stage"]):
            span, (base, _) = max(zip(spans, task.memrefs, strict=True))
            raise InputError(
                f"{array_name(self._signature, self._plan, base)} has {span} bytes in kernel "
                f"{kernel.text.name}, which needs {needed} bindings of at most {device.window} "
                f"bytes, {device.name} has {most}: use smaller inputs"
            )
        return found

    def _ready(self, task: Dispatch, memrefs: Sequence[Bound], words: Window) -> _Ready:
        pipeline, group = self._kernels[task.kernel].bind(words, memrefs, self._failed)
        most = self._device.limits["max-compute-workgroups-per-dimension"]
        return _Ready(pipeline, group, folded(task.grid, most))

    def _begin(self, step: Step[Storage, _Run], inputs: Sequence[Array]) -> None:
        for n, array in enumerate(inputs):
            self._device.write(self._buffers[FIRST_ARRAY + n], array)
        self._device.write(self._failed, np.zeros(1, np.uint32))

    def _submit(self, run: _Run) -> None:
        self._send(run)

    def _send(self, run: _Run, copies: Sequence[tuple[Window, int]] = ()) -> None:
        """Run dispatches, then copy windows to places in the staging buffer."""
        with errors_said(self._device):
            encoder = self._device.handle.create_command_encoder()
            if run.commands:
                commands = encoder.begin_compute_pass()
                for each in run.commands:
                    each.encode(commands)
                commands.end()
            for (buffer, start, size), place in copies:
                encoder.copy_buffer_to_buffer(buffer, start, self._staging, place, size)
            self._device.handle.queue.submit([encoder.finish()])

    def _timed(self, run: _Run) -> Times:
        return self._clock.timed([each.encode for each in run.commands])

    def _emptied(self, run: _Run) -> _Run:
        return replace(run, commands=())

    def _finish(self, step: Step[Storage, _Run]) -> tuple[int, dict[str, Array]]:
        places = [-(-output.nbytes // 8) * 8 for output in step.outputs]
        starts = [8, *(8 + int(each) for each in np.cumsum(places))]
        if starts[-1] > self._device.part:
            return self._finish_apart(step)
        copies = [(Window(self._failed.parts[0], 0, 4), 0)]
        for output, start in zip(step.outputs, starts, strict=False):
            pieces = list(self._buffers[output.base].pieces(0, -(-output.nbytes // 4) * 4))
            ends = accumulate((each.size for each in pieces), initial=start)
            copies += zip(pieces, ends, strict=False)
        if self._staging.size < starts[-1]:
            self._staging.destroy()
            self._staging = self._device.staging(min(2 * starts[-1], self._device.part))
        self._send(step.runs[-1], copies)
        with errors_said(self._device):
            self._staging.map_sync("READ", 0, starts[-1])
            data = np.frombuffer(self._staging.read_mapped(0, starts[-1]), np.uint8)
            self._staging.unmap()
        found = {
            output.name: _shaped(output, data[start : start + output.nbytes])
            for output, start in zip(step.outputs, starts, strict=False)
        }
        return int(data[:4].view(np.uint32)[0]), found

    def _finish_apart(self, step: Step[Storage, _Run]) -> tuple[int, dict[str, Array]]:
        """Finish a step whose outputs are more than one staging buffer holds."""
        self._send(step.runs[-1])
        failed = int(self._device.read(self._failed, 0, 4).view(np.uint32)[0])
        found = {
            each.name: _shaped(each, self._device.read(self._buffers[each.base], 0, each.nbytes))
            for each in step.outputs
        }
        return failed, found


def _shaped(output: Output, data: Array) -> Array:
    return data.view(output.dtype).reshape(output.shape)
