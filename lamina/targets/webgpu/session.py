"""What one caller has on a device: buffers, and the dispatches made ready for some shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from lamina.errors import InputError
from lamina.targets.base import Array, bind, input_array, state_array
from lamina.targets.memory import element_dtype
from lamina.targets.plans.dispatches import (
    Dispatch,
    Dispatches,
    HostArray,
    HostDispatch,
    dispatches_of,
)
from lamina.targets.plans.plan_tables import ARENA, FIRST_ARRAY
from lamina.targets.webgpu.compiled_kernels import folded
from lamina.targets.webgpu.device import errors_said

if TYPE_CHECKING:
    from lamina.targets.webgpu.executable import WebGpuExecutable

WORKERS: Final = 32
"""How many programs run at once, for kernels that share work out by that."""

_MOST_SHAPES: Final = 64
"""How many shapes of inputs dispatches are kept ready for."""


@dataclass(frozen=True)
class _Ready:
    """A dispatch as commands: pipeline, what is bound, grid."""

    pipeline: Any
    group: Any
    grid: tuple[int, int, int]


@dataclass(frozen=True)
class _Prepared:
    """What a step of some shapes does: runs of dispatches, a host call between two."""

    dispatches: Dispatches
    runs: tuple[tuple[_Ready, ...], ...]
    hosts: tuple[HostDispatch, ...]
    keep: object


class WebGpuSession:
    """Memory for one call after another, by one thread at a time.

    States are brought to the device when they are held, and back when they are let go of; in
    between, steps find them where the last one left them.
    """

    def __init__(self, executable: WebGpuExecutable) -> None:
        """Begin with no memory."""
        self._executable = executable
        self._device = executable.device
        self._signature = executable.signature
        self._buffers: dict[int, Any] = {}
        self._states: dict[str, Array] = {}
        self._prepared: dict[object, _Prepared] = {}
        self._failed = self._device.storage(4)
        self._staging = self._device.staging(4)

    def hold(self, states: Mapping[str, Array]) -> None:
        """Bring these arrays to the device, where calls update them; InputError if one cannot be.

        They are written back by `let_go`.
        """
        held: dict[str, Array] = {}
        for binding in self._signature.states:
            if binding.name not in states:
                raise InputError(f"input {binding.name!r} is missing")
            held[binding.name] = state_array(binding, states[binding.name])
        first = FIRST_ARRAY + len(self._signature.inputs)
        with self._device.lock:
            for n, array in enumerate(held.values()):
                self._device.write(self._reserve(first + n, array.nbytes), array)
        self._states = held

    def let_go(self) -> None:
        """Write the states back to the arrays that were given, and forget those."""
        states, self._states = self._states, {}
        first = FIRST_ARRAY + len(self._signature.inputs)
        with self._device.lock:
            for n, array in enumerate(states.values()):
                data = self._device.read(self._buffers[first + n], 0, array.nbytes)
                array[...] = data.view(array.dtype).reshape(array.shape)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run once on inputs by name; the outputs are the caller's."""
        with self._device.lock:
            arrays = self._in_order(inputs)
            prepared = self._prepare(arrays)
            for n, array in enumerate(arrays.values()):
                self._device.write(self._buffers[FIRST_ARRAY + n], array)
            self._device.write(self._failed, np.zeros(1, np.uint32))
            for run, host in zip(prepared.runs, prepared.hosts, strict=False):
                self._submit(run)
                self._call(host, prepared.dispatches.symbols)
            return self._finish(prepared)

    def _in_order(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        bindings = self._signature.inputs
        known = [binding.name for binding in bindings]
        if unknown := [name for name in inputs if name not in known]:
            known += [binding.name for binding in self._signature.states]
            raise InputError(f"there is no input {unknown[0]!r}: expected {', '.join(known)}")
        if missing := [name for name in known if name not in inputs]:
            raise InputError(f"input {missing[0]!r} is missing")
        return {each.name: input_array(each, inputs[each.name]) for each in bindings}

    def _prepare(self, arrays: Mapping[str, Array]) -> _Prepared:
        given = {**arrays, **self._states}
        key = tuple((array.shape, array.dtype) for array in given.values())
        if key not in self._prepared:
            signature, plan = self._signature, self._executable.plan
            symbols = bind((*signature.inputs, *signature.states), given)
            dispatches = dispatches_of(plan, symbols, WORKERS)
            self._make_room(arrays, dispatches)
            if len(self._prepared) == _MOST_SHAPES:
                self._prepared.clear()
            self._prepared[key] = self._ready(dispatches)
        return self._prepared[key]

    def _make_room(self, arrays: Mapping[str, Array], dispatches: Dispatches) -> None:
        self._reserve(ARENA, dispatches.arena)
        for n, array in enumerate(arrays.values()):
            self._reserve(FIRST_ARRAY + n, array.nbytes)
        for base, shape, dtype in self._outputs(dispatches):
            self._reserve(base, prod(shape) * dtype.itemsize)

    def _outputs(self, dispatches: Dispatches) -> list[tuple[int, tuple[int, ...], np.dtype[Any]]]:
        signature, plan = self._signature, self._executable.plan
        first = FIRST_ARRAY + plan.arrays - len(signature.outputs)
        return [
            (first + n, shape, element_dtype(binding.dtype))
            for n, (binding, shape) in enumerate(
                zip(signature.outputs, dispatches.outputs, strict=True)
            )
        ]

    def _reserve(self, base: int, size: int) -> Any:
        """Return the buffer of a base, made anew where it is too small."""
        known = self._buffers.get(base)
        if known is None or known.size < size:
            # What was made ready names the former buffer.
            self._prepared.clear()
            self._buffers[base] = self._device.storage(size)
            if known is not None:
                known.destroy()
        return self._buffers[base]

    def _buffer(self, base: int) -> Any:
        return self._executable.packed.get(base) or self._buffers[base]

    def _ready(self, dispatches: Dispatches) -> _Prepared:
        device, kernels = self._device, self._executable.kernels
        tasks = [task for task in dispatches.tasks if isinstance(task, Dispatch)]
        bound = [self._windows(task) for task in tasks]
        words = [
            kernels[task.kernel].words(task, [offset for _, _, _, offset in windows])
            for task, windows in zip(tasks, bound, strict=True)
        ]
        step = device.alignment // 4
        sizes = [-(-each.size // step) * step for each in words]
        starts = np.cumsum([0, *sizes])
        table = np.zeros(max(4, int(starts[-1])), np.int32)
        for start, each in zip(starts, words, strict=False):
            table[start : start + each.size] = each
        uniform = device.uniform(table)
        made = iter(
            self._group(task, windows, (uniform, int(start) * 4, each.nbytes))
            for task, windows, start, each in zip(tasks, bound, starts, words, strict=False)
        )
        runs: list[tuple[_Ready, ...]] = []
        run: list[_Ready] = []
        for task in dispatches.tasks:
            if isinstance(task, Dispatch):
                run.append(next(made))
            elif isinstance(task, HostDispatch):
                runs.append(tuple(run))
                run = []
        hosts = tuple(task for task in dispatches.tasks if isinstance(task, HostDispatch))
        return _Prepared(dispatches, (*runs, tuple(run)), hosts, uniform)

    def _windows(self, task: Dispatch) -> list[tuple[Any, int, int, int]]:
        """Return for each memref what is bound: buffer, start, size, and the bytes before it."""
        device = self._device
        limit = device.limits["max-storage-buffer-binding-size"]
        windows: list[tuple[Any, int, int, int]] = []
        for base, offset in task.memrefs:
            buffer = self._buffer(base)
            start = offset // device.alignment * device.alignment
            # An empty array may begin where its buffer ends.
            start = min(start, (buffer.size - 4) // device.alignment * device.alignment)
            size = min(buffer.size - start, limit // 4 * 4)
            windows.append((buffer, start, size, offset - start))
        return windows

    def _group(
        self,
        task: Dispatch,
        windows: Sequence[tuple[Any, int, int, int]],
        words: tuple[Any, int, int],
    ) -> _Ready:
        kernel = self._executable.kernels[task.kernel]
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

    def _submit(self, run: Sequence[_Ready], copies: Sequence[tuple[Any, int, int]] = ()) -> None:
        """Run dispatches, then copy (buffer, place in the staging buffer, bytes)."""
        with errors_said(self._device):
            encoder = self._device.handle.create_command_encoder()
            if run:
                commands = encoder.begin_compute_pass()
                for each in run:
                    commands.set_pipeline(each.pipeline)
                    commands.set_bind_group(0, each.group)
                    commands.dispatch_workgroups(*each.grid)
                commands.end()
            for buffer, place, size in copies:
                encoder.copy_buffer_to_buffer(buffer, 0, self._staging, place, size)
            self._device.handle.queue.submit([encoder.finish()])

    def _finish(self, prepared: _Prepared) -> dict[str, Array]:
        """Run what is left, and return the outputs; InputError names a check that failed."""
        outputs = self._outputs(prepared.dispatches)
        copies, end = [(self._failed, 0, 4)], 8
        for base, shape, dtype in outputs:
            size = -(-prod(shape) * dtype.itemsize // 4) * 4
            copies += [(self._buffers[base], end, size)] if size else []
            end += -(-size // 8) * 8
        if self._staging.size < end:
            self._staging.destroy()
            self._staging = self._device.staging(2 * end)
        self._submit(prepared.runs[-1], copies)
        with errors_said(self._device):
            self._staging.map_sync("READ", 0, end)
            data = np.frombuffer(self._staging.read_mapped(0, end), np.uint8)
            self._staging.unmap()
        if failed := int(data[:4].view(np.uint32)[0]):
            node = self._executable.plan.nodes[failed - 1]
            raise InputError(f"{node}: a value of the input is out of range")
        return self._cut(data, outputs)

    def _cut(
        self, data: Array, outputs: Sequence[tuple[int, tuple[int, ...], np.dtype[Any]]]
    ) -> dict[str, Array]:
        found: dict[str, Array] = {}
        start = 8
        for binding, (_, shape, dtype) in zip(self._signature.outputs, outputs, strict=True):
            size = prod(shape) * dtype.itemsize
            found[binding.name] = data[start : start + size].view(dtype).reshape(shape)
            start += -(-size // 8) * 8
        return found

    def _call(self, host: HostDispatch, symbols: Mapping[str, int]) -> None:
        """Make a host call: its arrays are read, and those that it writes written back."""
        device = self._device
        arrays: list[Array] = []
        regions: list[tuple[HostArray, int, Array]] = []
        for each in host.arrays:
            (base, offset), dtype = each.address, element_dtype(each.dtype)
            start, size = offset // 4 * 4, prod(each.shape) * dtype.itemsize
            region = device.read(self._buffer(base), start, offset - start + size)
            part = region[offset - start :].view(dtype).reshape(each.shape)
            arrays.append(part)
            regions.append((each, start, region))
        self._executable.hosts[host.number](symbols, arrays)
        for each, start, region in regions:
            if each.access != "read":
                device.write(self._buffer(each.address[0]), region, start)
