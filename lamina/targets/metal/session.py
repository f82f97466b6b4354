"""What one caller has on a device of Metal: commands for the dispatches of some shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from lamina.targets.base import Array
from lamina.targets.devices.noting import Times
from lamina.targets.devices.session import DeviceSession
from lamina.targets.devices.steps import Output, Places, Step
from lamina.targets.metal.device import Buffer, Command
from lamina.targets.plans.dispatches import Dispatch
from lamina.targets.plans.plan_tables import FIRST_ARRAY

if TYPE_CHECKING:
    from lamina.targets.metal.executable import MetalExecutable

Run = tuple[Command, ...]
"""Dispatches made ready."""


class MetalSession(DeviceSession[Buffer, Run]):
    """Memory for one call after another, by one thread at a time."""

    def __init__(self, executable: MetalExecutable) -> None:
        """Begin with no memory but the error word."""
        device = executable.device
        super().__init__(executable)
        self._kernels = executable.code
        self._device = device
        self._failed = device.storage(4)

    def _make_ready(
        self, runs: Sequence[Sequence[Dispatch]], places: Places[Buffer], outputs: Sequence[Output]
    ) -> tuple[Run, ...]:
        return tuple(tuple(self._command(task, places) for task in tasks) for tasks in runs)

    def _command(self, task: Dispatch, places: Places[Buffer]) -> Command:
        memrefs: list[tuple[Buffer, int]] = []
        for base, offset in task.memrefs:
            buffer, start = places[base]
            memrefs.append((buffer, start + offset))
        return self._kernels[task.kernel].command(task, memrefs, self._failed)

    def _begin(self, step: Step[Buffer, Run], inputs: Sequence[Array]) -> None:
        for n, array in enumerate(inputs):
            self._device.write(self._buffers[FIRST_ARRAY + n], array)
        self._device.write(self._failed, np.zeros(1, np.uint32))

    def _submit(self, run: Run) -> None:
        self._device.run(run)

    def _timed(self, run: Run) -> Times:
        return self._device.timed(run)

    def _emptied(self, run: Run) -> Run:
        return ()

    def _finish(self, step: Step[Buffer, Run]) -> tuple[int, dict[str, Array]]:
        self._device.run(step.runs[-1])
        failed = int(self._device.read(self._failed, 0, 4).view(np.uint32)[0])
        found: dict[str, Array] = {}
        for output in step.outputs:
            buffer, start = step.places[output.base]
            data = self._device.read(buffer, start, output.nbytes)
            found[output.name] = data.view(output.dtype).reshape(output.shape)
        return failed, found
