"""What one caller has on a CUDA device: memory, and graphs of the launches of some shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lamina.targets.base import Array
from lamina.targets.cuda.branches import Work
from lamina.targets.cuda.clock import Clock
from lamina.targets.cuda.compiled_kernels import Launch, launch_of, maps_of
from lamina.targets.cuda.device import CudaBuffer, CudaDevice
from lamina.targets.cuda.graphs import Graph
from lamina.targets.cuda.staging import Pinned
from lamina.targets.devices.noting import Times
from lamina.targets.devices.session import DeviceSession
from lamina.targets.devices.steps import Output, Places, Step
from lamina.targets.plans.dispatches import Dispatch
from lamina.targets.plans.plan_tables import FIRST_ARRAY

if TYPE_CHECKING:
    from lamina.targets.cuda.executable import CudaExecutable

_ALIGNMENT: Final = 256
"""Bytes to which every input and output is aligned; the first ones hold the error word."""

_SENT, _RECEIVED = -1, -2
"""The buffers of all inputs together, and of the error word and all outputs."""

_PROGRAMS: Final = 4
"""How many blocks a multiprocessor has to choose from, for kernels that share work out."""


@dataclass
class Run:
    """Launches and copies between two host calls, and their graph once they have come twice.

    The launches of a stage need nothing of each other; `before` and `after` are the copies.
    """

    stages: tuple[tuple[Launch, ...], ...]
    before: Work | None = None
    after: Work | None = None
    done: bool = False
    graph: Graph | None = None

    def give(self, device: CudaDevice) -> None:
        """Have the device do all of it, one after another."""
        self._give(device, lambda launches: [each.give(device) for each in launches])

    def capture(self, device: CudaDevice) -> None:
        """Have a graph made of it, in which the launches of a stage are side by side."""
        give = device.branches.give
        self._give(device, lambda launches: give([partial(each.give, device) for each in launches]))

    def _give(self, device: CudaDevice, give: Callable[[tuple[Launch, ...]], object]) -> None:
        if self.before:
            self.before(device.stream)
        for launches in self.stages:
            give(launches)
        if self.after:
            self.after(device.stream)


class CudaSession(DeviceSession[CudaBuffer, Run]):
    """Memory for one call after another, by one thread at a time.

    Inputs and outputs go by way of pinned memory, in one copy each. A step of shapes that come
    again is captured, copies and all, and replayed as a graph from then on, in which launches
    that need nothing of each other are side by side.
    """

    def __init__(self, executable: CudaExecutable) -> None:
        """Begin with no memory."""
        device = executable.device
        super().__init__(executable)
        self.workers = _PROGRAMS * device.multiprocessors
        # Unloaded after the graphs of its kernels. The executable is not held: it has the session.
        self._loaded = executable.code
        self._device = device
        self._kernels = executable.code.kernels
        self._clock = Clock(device)
        self._to_send = 0
        self._under_way = False
        with device.lock:
            self._sent = Pinned(device, _ALIGNMENT)
            self._received = Pinned(device, _ALIGNMENT)

    def _lay_out(self, inputs: Sequence[Array], outputs: Sequence[Output]) -> Places[CudaBuffer]:
        starts, self._to_send = _starts([array.nbytes for array in inputs], 0)
        sent, self._sent = self._paired(_SENT, self._to_send, self._sent)
        ends, received_bytes = _starts([output.nbytes for output in outputs], _ALIGNMENT)
        received, self._received = self._paired(_RECEIVED, received_bytes, self._received)
        places = {base: (buffer, 0) for base, buffer in {**self._packed, **self._buffers}.items()}
        places |= {FIRST_ARRAY + n: (sent, start) for n, start in enumerate(starts)}
        places |= {each.base: (received, at) for each, at in zip(outputs, ends, strict=True)}
        return places

    def _paired(self, base: int, size: int, pinned: Pinned) -> tuple[CudaBuffer, Pinned]:
        """Return the buffer of a base, and pinned memory of its size."""
        # In powers of two, so that graphs seldom have to be made again.
        buffer = self._reserve(base, 1 << max(size - 1, 0).bit_length())
        if pinned.size >= buffer.size:
            return buffer, pinned
        pinned.destroy()
        return buffer, Pinned(self._device, buffer.size)

    def _make_ready(
        self,
        runs: Sequence[Sequence[Dispatch]],
        places: Places[CudaBuffer],
        outputs: Sequence[Output],
    ) -> tuple[Run, ...]:
        made = [Run(self._stages(tasks, places)) for tasks in runs]
        made[0].before = self._bringing(self._to_send)
        made[-1].after = self._fetching(_starts([each.nbytes for each in outputs], _ALIGNMENT)[1])
        return tuple(made)

    def _stages(
        self, tasks: Sequence[Dispatch], places: Places[CudaBuffer]
    ) -> tuple[tuple[Launch, ...], ...]:
        return tuple(
            tuple(self._launch(task, places) for task in stage)
            for _, stage in groupby(tasks, lambda task: task.stage)
        )

    def _launch(self, task: Dispatch, places: Places[CudaBuffer]) -> Launch:
        addresses = [places[base][0].address + places[base][1] + n for base, n in task.memrefs]
        failed = self._buffers[_RECEIVED].address
        kernel = self._kernels[task.kernel]
        maps = maps_of(self._device, kernel.facts, addresses, task.words)
        return launch_of(kernel, task.grid, addresses, task.words, failed, maps)

    def _bringing(self, size: int) -> Work:
        """Return the work of copying the inputs, and of setting the error word to 0."""
        call = self._device.call
        target, source = self._buffers[_SENT].address, self._sent.address
        failed = self._buffers[_RECEIVED].address

        def bring(stream: Any) -> None:
            if size:
                call("cuMemcpyHtoDAsync", target, source, size, stream)
            call("cuMemsetD32Async", failed, 0, 1, stream)

        return bring

    def _fetching(self, size: int) -> Work:
        """Return the work of copying the error word and the outputs."""
        target, source = self._received.address, self._buffers[_RECEIVED].address
        return partial(self._device.call, "cuMemcpyDtoHAsync", target, source, size)

    def _begin(self, step: Step[CudaBuffer, Run], inputs: Sequence[Array]) -> None:
        if self._under_way:
            # A step that was broken off may still read what is written here.
            self._device.wait()
        self._under_way = True
        for n, array in enumerate(inputs):
            start = step.places[FIRST_ARRAY + n][1]
            place = self._sent.array[start : start + array.nbytes]
            place.view(array.dtype).reshape(array.shape)[...] = array

    def _submit(self, run: Run) -> None:
        if run.done and run.graph is None:
            run.graph = Graph(self._device, partial(run.capture, self._device))
        run.done = True
        if run.graph is None:
            run.give(self._device)
        else:
            run.graph.give()

    def _finish(self, step: Step[CudaBuffer, Run]) -> tuple[int, dict[str, Array]]:
        self._submit(step.runs[-1])
        self._device.wait()
        self._under_way = False
        data = self._received.array
        found: dict[str, Array] = {}
        for output in step.outputs:
            start = step.places[output.base][1]
            part = data[start : start + output.nbytes].copy()
            found[output.name] = part.view(output.dtype).reshape(output.shape)
        return int(data[:4].view(np.int32)[0]), found

    def _timed(self, run: Run) -> Times:
        if run.before:
            run.before(self._device.stream)
        return self._clock.timed([launch for stage in run.stages for launch in stage])

    def _emptied(self, run: Run) -> Run:
        return Run((), after=run.after)

    def _discard(self, step: Step[CudaBuffer, Run]) -> None:
        for run in step.runs:
            if run.graph is not None:
                run.graph.destroy()


def _starts(sizes: Sequence[int], first: int) -> tuple[list[int], int]:
    """Return where arrays of these bytes begin, one after another, and where the last one ends."""
    starts: list[int] = []
    end = first
    for size in sizes:
        starts.append(-(-end // _ALIGNMENT) * _ALIGNMENT)
        end = starts[-1] + size
    return starts, end
