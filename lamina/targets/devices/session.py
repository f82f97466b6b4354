"""What one caller has on a device: buffers, and the steps made ready for some shapes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, Final, Generic

from lamina.errors import InputError
from lamina.targets.base import Array, bind, input_array, state_array
from lamina.targets.devices.memory import B, DeviceMemory
from lamina.targets.devices.noting import StepNotes, Times
from lamina.targets.devices.steps import Output, Places, R, Step, outputs_of, runs_of
from lamina.targets.memory import Arena, element_dtype
from lamina.targets.plans.dispatches import (
    Address,
    CopyDispatch,
    Dispatch,
    Dispatches,
    HostDispatch,
    HostTask,
    dispatches_of,
)
from lamina.targets.plans.plan_tables import ARENA, FIRST_ARRAY, HOST

if TYPE_CHECKING:
    from lamina.targets.devices.executable import DeviceExecutable

WORKERS: Final = 32
"""How many programs run at once, for kernels that share work out by that."""


class DeviceSession(ABC, Generic[B, R]):
    """Memory for one call after another, by one thread at a time.

    States are brought to the device when they are held, and back when they are let go of; in
    between, steps find them where the last one left them.
    """

    workers: int = WORKERS
    most_shapes: int = 64
    """How many shapes of inputs steps are kept ready for."""
    clocked: bool = True
    """Whether the device says when each dispatch began and was over."""

    def __init__(self, executable: DeviceExecutable[Any, B, Any]) -> None:
        """Begin with no memory but the weights of an executable, which is not held."""
        self._signature = executable.signature
        self._plan = executable.plan
        self._memory: DeviceMemory[B] = executable.device
        self._packed = executable.packed
        self._kept = executable.kept
        self._hosts = executable.hosts
        self._recorder = executable.recorder
        self._buffers: dict[int, B] = {}
        self._host_arena = Arena()
        self._states: dict[str, Array] = {}
        self._form: object = None
        self._steps: OrderedDict[object, Step[B, R]] = OrderedDict()

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
        with self._memory.lock:
            for n, array in enumerate(held.values()):
                self._memory.write(self._reserve(first + n, array.nbytes), array)
        self._states = held
        self._form = tuple((array.shape, array.dtype) for array in held.values())

    def let_go(self) -> None:
        """Write the states back to the arrays that were given, and forget those."""
        states, self._states = self._states, {}
        if not states:
            return
        first = FIRST_ARRAY + len(self._signature.inputs)
        with self._memory.lock:
            for n, array in enumerate(states.values()):
                data = self._memory.read(self._buffers[first + n], 0, array.nbytes)
                array[...] = data.view(array.dtype).reshape(array.shape)

    def forget(self) -> None:
        """Leave the arrays that were given as they are."""
        self._states = {}

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Run once on inputs by name; the outputs are the caller's.

        InputError names an input that is missing, unknown or of the wrong dtype or shape, and the
        node at which a value is out of range; TargetUnavailable says that the device is lost.
        """
        with self._memory.lock:
            arrays = self._in_order(inputs)
            step, given = self._step(arrays), list(arrays.values())
            timeline = self._recorder.timeline
            if timeline is None:
                failed, outputs = self._go(step, given)
            else:
                notes = StepNotes(self._plan, step.dispatches.symbols)
                failed, outputs = self._go_noted(step, given, notes)
                timeline.steps.append(notes.step())
        if failed:
            node = self._plan.nodes[failed - 1]
            raise InputError(f"{node}: a value of the input is out of range")
        return outputs

    def _go(self, step: Step[B, R], inputs: Sequence[Array]) -> tuple[int, dict[str, Array]]:
        """Make a step; return the error word, and the outputs by name."""
        self._begin(step, inputs)
        for run, hosts in zip(step.runs, step.hosts, strict=False):
            self._submit(run)
            for host in hosts:
                self._make(host, step)
        return self._finish(step)

    def _go_noted(
        self, step: Step[B, R], inputs: Sequence[Array], notes: StepNotes
    ) -> tuple[int, dict[str, Array]]:
        """Make a step, noted: dispatch by dispatch, where the device has a clock."""
        if not self.clocked:
            with notes.whole(step.dispatches.tasks):
                return self._go(step, inputs)
        self._begin(step, inputs)
        runs, _ = runs_of(step.dispatches.tasks)
        for run, tasks, hosts in zip(step.runs, runs, (*step.hosts, ()), strict=True):
            notes.dispatched(tasks, self._timed(run))
            for host in hosts:
                with notes.task(host):
                    self._make(host, step)
        return self._finish(replace(step, runs=(self._emptied(step.runs[-1]),)))

    @abstractmethod
    def _make_ready(
        self, runs: Sequence[Sequence[Dispatch]], places: Places[B], outputs: Sequence[Output]
    ) -> tuple[R, ...]:
        """Return runs of dispatches made ready, for bases in these places."""

    @abstractmethod
    def _begin(self, step: Step[B, R], inputs: Sequence[Array]) -> None:
        """Bring a step's inputs to the device, and set the error word to 0."""

    @abstractmethod
    def _submit(self, run: R) -> None:
        """Have the device make a run, after all that it was given before."""

    @abstractmethod
    def _finish(self, step: Step[B, R]) -> tuple[int, dict[str, Array]]:
        """Make a step's last run; return the error word, and the outputs by name."""

    @abstractmethod
    def _timed(self, run: R) -> Times:
        """Have the device make the dispatches of a run one after another, and wait for them."""

    @abstractmethod
    def _emptied(self, run: R) -> R:
        """Return what is left of a run once its dispatches are made."""

    def _discard(self, step: Step[B, R]) -> None:
        """Give up a step that was made ready."""

    def _in_order(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        bindings = self._signature.inputs
        known = [binding.name for binding in bindings]
        if unknown := [name for name in inputs if name not in known]:
            known += [binding.name for binding in self._signature.states]
            raise InputError(f"there is no input {unknown[0]!r}: expected {', '.join(known)}")
        if missing := [name for name in known if name not in inputs]:
            raise InputError(f"input {missing[0]!r} is missing")
        return {each.name: input_array(each, inputs[each.name]) for each in bindings}

    def _step(self, arrays: Mapping[str, Array]) -> Step[B, R]:
        """Return the step for arrays of these shapes: those used last are kept ready."""
        key = (self._form, *((array.shape, array.dtype) for array in arrays.values()))
        step = self._steps.get(key)
        if step is None:
            signature = self._signature
            symbols = bind((*signature.inputs, *signature.states), {**arrays, **self._states})
            step = self._new_step(arrays, dispatches_of(self._plan, symbols, self.workers))
            if len(self._steps) == self.most_shapes:
                self._discard(self._steps.popitem(last=False)[1])
            self._steps[key] = step
        self._steps.move_to_end(key)
        return step

    def _new_step(self, arrays: Mapping[str, Array], dispatches: Dispatches) -> Step[B, R]:
        outputs = outputs_of(self._signature, self._plan, dispatches)
        self._reserve(ARENA, dispatches.arena)
        self._host_arena.reserve(dispatches.host_arena)
        places = self._lay_out(list(arrays.values()), outputs)
        runs, hosts = runs_of(dispatches.tasks)
        return Step(dispatches, outputs, places, self._make_ready(runs, places, outputs), hosts)

    def _lay_out(self, inputs: Sequence[Array], outputs: Sequence[Output]) -> Places[B]:
        """Return where everything lies, with room for inputs and outputs made in buffers."""
        for n, array in enumerate(inputs):
            self._reserve(FIRST_ARRAY + n, array.nbytes)
        for output in outputs:
            self._reserve(output.base, output.nbytes)
        return {base: (buffer, 0) for base, buffer in {**self._packed, **self._buffers}.items()}

    def _reserve(self, base: int, size: int) -> B:
        """Return the buffer of a base, made anew where it is too small."""
        known = self._buffers.get(base)
        if known is not None and known.size >= size:
            return known
        # What was made ready names the former buffer.
        while self._steps:
            self._discard(self._steps.popitem()[1])
        if known is not None:
            # Before the new one is made, so that the two are never held at once.
            del self._buffers[base]
            known.destroy()
        self._buffers[base] = self._memory.storage(size)
        return self._buffers[base]

    def _make(self, task: HostTask, step: Step[B, R]) -> None:
        """Do what the host does itself, once the device has made all runs before."""
        if isinstance(task, CopyDispatch):
            self._copy(task, step.places)
        else:
            self._call(task, step)

    def _copy(self, copy: CopyDispatch, places: Places[B]) -> None:
        """Copy bytes from the host to the device or back."""
        if copy.target[0] == HOST:
            buffer, start = _place(copy.source, places)
            self._host_bytes(copy.target, copy.size)[...] = self._memory.read(
                buffer, start, copy.size
            )
        else:
            buffer, start = _place(copy.target, places)
            self._memory.write(buffer, self._host_bytes(copy.source, copy.size), start)

    def _call(self, host: HostDispatch, step: Step[B, R]) -> None:
        """Make a host call on arrays that lie in the host's memory."""
        arrays: list[Array] = []
        for each in host.arrays:
            dtype = element_dtype(each.dtype)
            data = self._host_bytes(each.address, prod(each.shape) * dtype.itemsize)
            arrays.append(data.view(dtype).reshape(each.shape))
        self._hosts[host.number](step.dispatches.symbols, arrays)

    def _host_bytes(self, address: Address, size: int) -> Array:
        base, start = address
        return self._kept.get(base, self._host_arena.block)[start : start + size]


def _place(address: Address, places: Places[B]) -> tuple[B, int]:
    """Return the buffer of an address on the device, and a byte of it."""
    buffer, start = places[address[0]]
    return buffer, start + address[1]
