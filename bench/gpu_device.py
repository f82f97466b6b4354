"""A CUDA device as its checks use it: clocks, and kernels and steps on memory that stays there."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from xdsl.passes import ModulePass

from lamina.dialects.simt import KernelOp
from lamina.errors import InputError
from lamina.targets.base import bind
from lamina.targets.cuda.compiled_kernels import Code, KernelFacts, Launch, launch_of, load_kernels
from lamina.targets.cuda.device import CudaBuffer, CudaDevice
from lamina.targets.cuda.executable import CudaExecutable
from lamina.targets.cuda.graphs import Graph
from lamina.targets.cuda.nvvm import emit_kernel
from lamina.targets.cuda.printer import NodeTable
from lamina.targets.cuda.ptx import to_ptx
from lamina.targets.cuda.target import CudaTarget
from lamina.targets.devices.steps import outputs_of
from lamina.targets.plans.dispatches import Dispatch, dispatches_of
from lamina.targets.plans.layouts import layout
from lamina.targets.plans.plan_tables import ARENA, FIRST_ARRAY

Array = npt.NDArray[Any]

PROGRAMS = 4
"""Blocks a multiprocessor, for kernels that share work out."""
LEAST, MOST_TIMES, ROUNDS = 0.02, 500, 5
"""Seconds that a round takes at least, how often it gives the work at most, and how many rounds."""


@dataclass(frozen=True)
class Imitated(CudaTarget):
    """The CUDA target on a device that interprets PTX."""

    name: ClassVar[str] = "cuda"

    def open(self) -> CudaDevice:
        """Return the one device."""
        return _imitation()


@cache
def _imitation() -> CudaDevice:
    from lamina.testing.ptx.driver import FakeDriver

    return CudaDevice(FakeDriver(), 0)


def threaded(text: str) -> KernelOp:
    """Return a kernel of tiles as the work of threads, as the CUDA target has it."""
    from lamina.dialects.text import parse_module
    from lamina.passes.decompose_math import DecomposeMathPass
    from lamina.plugins import manager

    context = manager.context()
    module = parse_module(context, text, "a kernel")
    for each in (DecomposeMathPass(), *thread_passes(CudaTarget().passes())):
        each.apply(context, module)
    kernel = module.body.block.first_op
    assert isinstance(kernel, KernelOp)
    return kernel


def thread_passes(passes: Sequence[ModulePass]) -> Sequence[ModulePass]:
    """Return those of a target's passes that work on kernels of tiles: layouts, and what follows.

    The last one is the one that makes the work of threads of them.
    """
    names = [each.name for each in passes]
    return passes[names.index("choose-layouts") : names.index("lower-tiles") + 1]


class Clock:
    """Times work by the events of a device's stream; `once` gives work no second time.

    What is timed is replayed as a graph, so that Python's part in it does not count.
    """

    def __init__(self, device: CudaDevice, *, once: bool = False) -> None:
        """Make the two events."""
        self._device = device
        self._once = once
        self._events = [device.call("cuEventCreate", 0) for _ in range(2)]

    def seconds(self, give: Callable[[], None]) -> float:
        """Return the median seconds of work that `give` gives the device."""
        with self._device.lock:
            first = self._span(give, 1)
            replayed = Graph(self._device, give)
            if self._once:
                return max(first, 1e-9)
            again = max(self._span(replayed.give, 1), 1e-7)
            times = min(MOST_TIMES, 1 + int(LEAST / again))
            return median(self._span(replayed.give, times) / times for _ in range(ROUNDS))

    def _span(self, give: Callable[[], None], times: int) -> float:
        call, (begin, end) = self._device.call, self._events
        call("cuEventRecord", begin, self._device.stream)
        for _ in range(times):
            give()
        call("cuEventRecord", end, self._device.stream)
        call("cuEventSynchronize", end)
        return float(call("cuEventElapsedTime", begin, end)) * 1e-3


class DeviceKernel:
    """One kernel on a device, to be run on memory of the program or timed on the device's."""

    def __init__(self, device: CudaDevice, kernel: KernelOp, arch: str) -> None:
        """Compile and load it."""
        self.device, self.kernel, self._nodes = device, kernel, NodeTable()
        code = emit_kernel(kernel, self._nodes)
        facts = KernelFacts(code.name, code.threads, code.shared_bytes)
        ptx = to_ptx([code.text], arch).encode()
        with device.lock:
            self._loaded = load_kernels(device, Code(ptx, arch), [facts])
            self._failed = device.storage(4)

    def run(self, arrays: Sequence[Array], values: Mapping[str, int], grid: Sequence[int]) -> None:
        """Run it once; `arrays`, strided or not, are changed in place.

        InputError names the node of a check that fails.
        """
        device = self.device
        if 0 in grid:
            return
        with device.lock:
            flats = [flat(array) for array in arrays]
            buffers = [device.storage(each.nbytes) for each in flats]
            for buffer, data in zip(buffers, flats, strict=True):
                device.write(buffer, data)
            device.write(self._failed, np.zeros(1, np.int32))
            shapes = [(array.shape, _steps(array)) for array in arrays]
            self.launch(buffers, shapes, values, grid).give(device)
            for buffer, sent, array in zip(buffers, flats, arrays, strict=True):
                if array.flags.writeable and array.size:
                    data = device.read(buffer, 0, sent.nbytes).view(sent.dtype)
                    array[...] = np.lib.stride_tricks.as_strided(data, array.shape, array.strides)
            failed = int(device.read(self._failed, 0, 4).view(np.int32)[0])
        if failed:
            raise InputError(self._nodes.names[failed - 1])

    def launch(
        self,
        buffers: Sequence[CudaBuffer],
        shapes: Sequence[tuple[Sequence[int], Sequence[int]]],
        values: Mapping[str, int],
        grid: Sequence[int],
    ) -> Launch:
        """Return a launch on buffers, each of a shape and strides in elements."""
        words: list[int] = []
        for value, (extents, strides) in zip(self.kernel.memrefs, shapes, strict=True):
            known = layout(value.type)
            pairs = zip(
                (*extents, *strides), (*known.extents, *(known.strides or ())), strict=False
            )
            words += [given for given, fixed in pairs if fixed is None]
        words += [values[symbol.data] for symbol in self.kernel.symbols]
        x, y, z = (*grid, 1, 1)[:3]
        addresses = [buffer.address for buffer in buffers]
        (kernel,) = self._loaded.kernels
        return launch_of(kernel, (x, y, z), addresses, words, self._failed.address)


def _steps(array: Array) -> list[int]:
    return [stride // array.itemsize for stride in array.strides]


def flat(array: Array) -> Array:
    """Return the elements from the first to the last one of an array, gaps as 0."""
    span = 1 + sum((n - 1) * step for n, step in zip(array.shape, _steps(array), strict=True))
    found = np.zeros(span if array.size else 0, array.dtype)
    if array.size:
        np.lib.stride_tricks.as_strided(found, array.shape, array.strides)[...] = array
    return found


class ResidentStep:
    """A step whose inputs, states and outputs stay on the device, to be timed without copies."""

    def __init__(self, executable: CudaExecutable, inputs: Mapping[str, Array]) -> None:
        """Bring inputs and states, by name, to the device."""
        # Its code stays loaded with it.
        self._executable = executable
        self.device, plan, signature = executable.device, executable.plan, executable.signature
        known = (*signature.inputs, *signature.states)
        symbols = bind(known, dict(inputs))
        workers = PROGRAMS * self.device.multiprocessors
        found = dispatches_of(plan, symbols, workers)
        self._outputs = outputs_of(signature, plan, found)
        with self.device.lock:
            self._buffers = dict(executable.packed)
            self._buffers[ARENA] = self.device.storage(found.arena)
            for n, binding in enumerate(known):
                array = inputs[binding.name]
                self._buffers[FIRST_ARRAY + n] = self.device.storage(array.nbytes)
                self.device.write(self._buffers[FIRST_ARRAY + n], array)
            for output in self._outputs:
                self._buffers[output.base] = self.device.storage(output.nbytes)
            self._failed = self.device.storage(4)
        kernels = executable.code.kernels
        tasks = [task for task in found.tasks if isinstance(task, Dispatch)]
        self._launches = [
            launch_of(
                kernels[task.kernel],
                task.grid,
                [self._buffers[base].address + at for base, at in task.memrefs],
                task.words,
                self._failed.address,
            )
            for task in tasks
        ]

    def give(self) -> None:
        """Have the device do it after all that it was given before."""
        for launch in self._launches:
            launch.give(self.device)

    def outputs(self) -> dict[str, Array]:
        """Return the outputs by name, once all is done."""
        with self.device.lock:
            return {
                each.name: self.device.read(self._buffers[each.base], 0, each.nbytes)
                .view(each.dtype)
                .reshape(each.shape)
                for each in self._outputs
            }
