"""Loaded CPU code: checks what it is called with, lends memory to the call, and runs the plan."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, Final

import numpy as np

from lamina.errors import InputError
from lamina.targets.base import (
    Executable,
    Signature,
    bind,
    by_name,
    input_array,
    state_array,
)
from lamina.targets.cpu.crew import Crew
from lamina.targets.cpu.output_room import OutputRoom
from lamina.targets.cpu.pool import pool
from lamina.targets.cpu.step import Step, Tables
from lamina.targets.cpu.trial import Trial
from lamina.targets.memory import Arena, Array, aligned, element_dtype, empty
from lamina.targets.plans.expressions import fits_64_bits
from lamina.targets.plans.plan_tables import Plan
from lamina.targets.timeline import Timeline

HostRun = Callable[[Step], None]
"""Makes one host call in the memory of a step."""

Solved = tuple[tuple[int, int], ...]
"""Symbols of the plan and their numbers."""

_MOST_SHAPES: Final = 1024


class CpuExecutable(Executable):
    """Code and read-only weights of a model: threads may share it, a call has memory of its own."""

    def __init__(
        self,
        signature: Signature,
        plan: Plan,
        kernels: Sequence[int],
        packed: Sequence[Array],
        threads: Callable[[], int],
        *,
        hosts: Sequence[HostRun] = (),
        keep: object = None,
        level: str | None = None,
    ) -> None:
        """Take the addresses of `plan.kernels` and the arrays of `plan.packed`, aligned.

        `threads` tells how many may run a step, and is asked from time to time. `keep` is whatever
        must live as long as the code can run. `level` is the feature level that the code is for,
        None for the machine's best.
        """
        self._signature = signature
        self._tables = Tables(plan, kernels)
        self._packed = tuple(packed)
        self._hosts = tuple(hosts)
        self._keep = keep
        self.level = level
        self._free: deque[CpuSession] = deque()
        self._names = frozenset(each.name for each in (*signature.inputs, *signature.states))
        self._threads = threads
        self.timeline: Timeline | None = None
        """Where steps are noted, if they are; see `lamina.targets.timeline.trace`."""

    @property
    def signature(self) -> Signature:
        """Inputs, outputs and states."""
        return self._signature

    @property
    def threads(self) -> int:
        """How many run a step: as many as were asked for, if the process may use as many CPUs."""
        return self._threads()

    @property
    def plan(self) -> Plan:
        """What a step does."""
        return self._tables.plan

    def __call__(self, *args: Array, **kwargs: Array) -> dict[str, Array]:
        """Run once: inputs by position or name, states by name (updated in place).

        InputError names an argument that is missing, unknown or of the wrong dtype or shape, and
        the node at which a value is out of range.
        """
        # What most calls are, told at once.
        whole = not args and kwargs.keys() == self._names
        given = kwargs if whole else by_name(self._signature, args, kwargs)
        states = {binding.name: given.pop(binding.name) for binding in self._signature.states}
        try:
            session = self._free.pop()
        except IndexError:
            session = CpuSession(self)
        try:
            session.hold(states)
            return session.run(given, fresh=True)
        finally:
            session.let_go()
            self._free.append(session)

    def session(self, states: Mapping[str, Array] | None = None) -> CpuSession:
        """Return a session on these states, for many calls of one thread."""
        session = CpuSession(self)
        session.hold(dict(states or {}))
        return session

    def new_step(self, workers: int) -> Step:
        """Return memory for calls by so many workers, with the packed weights in place."""
        step = Step(self._tables, workers)
        first = len(self._signature.inputs) + len(self._signature.states)
        for n, array in enumerate(self._packed):
            step.place(first + n, array.ctypes.data)
        return step

    @property
    def tables(self) -> Tables:
        """The plan, laid out for steps."""
        return self._tables

    @property
    def hosts(self) -> tuple[HostRun, ...]:
        """The plan's host calls."""
        return self._hosts


class CpuSession:
    """Memory for one call after another, by one thread at a time: nothing is allocated again.

    Inputs are copied to places that stay, and outputs come back in memory that the next call
    writes over; calls of equal shapes give the same arrays.
    """

    def __init__(self, executable: CpuExecutable) -> None:
        """Take a step's memory."""
        self._executable = executable
        self._signature = executable.signature
        now = perf_counter()
        self._crew = Crew(lambda: executable.threads, now)
        self._step = executable.new_step(self._crew.muster(now))
        self._states: dict[str, Array] = {}
        self._form: dict[str, Any] = {}
        self._staged: list[tuple[Array, Array]] = []
        self._input_rooms = [Arena() for _ in self._signature.inputs]
        self._output_rooms = _output_rooms(executable)
        self._inputs = [room.block for room in self._input_rooms]
        self._outputs: dict[str, Array] = {}
        self._late: list[OutputRoom] = []
        self._fresh = False
        self._step.grown = self._make_late_outputs
        self._names = [each.name for each in self._signature.inputs]
        self._shapes: object = None
        self._solved: dict[object, tuple[Solved, Trial]] = {}
        self._trial = Trial()
        self._dtypes = [element_dtype(each.dtype) for each in self._signature.inputs]

    def hold(self, states: Mapping[str, Array]) -> None:
        """Let calls update these arrays, until others are given; InputError if one cannot be."""
        if not self._signature.states:
            return
        self._states, self._staged = dict(states), []
        for n, binding in enumerate(self._signature.states):
            if binding.name not in self._states:
                raise InputError(f"input {binding.name!r} is missing")
            array = state_array(binding, self._states[binding.name])
            if not aligned(array):
                self._staged.append((array, empty(array.shape, array.dtype)))
                array = self._staged[-1][1]
            self._step.place(len(self._signature.inputs) + n, array.ctypes.data)
        form = {name: (array.shape, array.dtype) for name, array in self._states.items()}
        if form != self._form:
            self._form, self._shapes = form, None
            self._solved.clear()

    def let_go(self) -> None:
        """Forget the arrays of the last call."""
        self._states, self._staged = {}, []

    def run(self, inputs: Mapping[str, Array], *, fresh: bool = False) -> dict[str, Array]:
        """Run once on inputs by name; `fresh` makes outputs that the next call leaves alone."""
        arrays = self._in_order(inputs)
        timeline = self._executable.timeline
        shapes = [array.shape for array in arrays]
        if shapes != self._shapes or [array.dtype for array in arrays] != self._dtypes:
            self._prepare(arrays, tuple(shapes), fresh=fresh)
            self._shapes = shapes
        elif fresh or not self._outputs or self._executable.tables.bound:
            self._make_outputs(fresh=fresh)
        for place, array in zip(self._inputs, arrays, strict=True):
            place[...] = array
        for array, staged in self._staged:
            staged[...] = array
        try:
            node = self._walk(timeline)
        finally:
            for array, staged in self._staged:
                array[...] = staged
        if node is not None:
            raise InputError(f"{node}: a value of the input is out of range")
        outputs = self._outputs
        if fresh:
            self._outputs = {}
        return {each.name: each.shown(outputs[each.name]) for each in self._signature.outputs}

    def _walk(self, timeline: Timeline | None) -> str | None:
        """Run the step by as many workers as are worth it; return a check's node if it failed."""
        # What is noted is compared with what all of them can do.
        most = self._crew.muster(perf_counter(), everyone=timeline is not None)
        workers = 1 if self._trial.alone and timeline is None else most
        if workers != self._step.workers:
            self._step.employ(workers)
        began = perf_counter()
        node = self._step.run(self._executable.hosts, timeline)
        if timeline is None and most > 1:
            ended = perf_counter()
            self._trial.ran(ended - began)
            if workers == most:
                self._crew.ran(began, ended, pool().cpu_times)
        return node

    def _in_order(self, inputs: Mapping[str, Array]) -> list[Array]:
        bindings = self._signature.inputs
        try:
            arrays = [inputs[name] for name in self._names]
        except KeyError as error:
            raise InputError(f"input {error} is missing") from None
        if len(inputs) > len(bindings):
            unknown = next(name for name in inputs if name not in self._names)
            known = ", ".join([*self._names, *(each.name for each in self._signature.states)])
            raise InputError(f"there is no input {unknown!r}: expected {known}")
        if all(type(array) is np.ndarray for array in arrays):
            return arrays
        return [input_array(*each) for each in zip(bindings, arrays, strict=True)]

    def _prepare(self, arrays: Sequence[Array], shapes: tuple[Any, ...], *, fresh: bool) -> None:
        """Solve the symbols, and make room for inputs and outputs of these shapes."""
        self._shapes = None
        solved, self._trial = self._solve(arrays, shapes)
        self._step.bind(solved)
        for n, (room, array) in enumerate(zip(self._input_rooms, arrays, strict=True)):
            self._inputs[n] = room.array(array.shape, array.dtype)
            self._step.place(n, room.address)
        for room in self._output_rooms:
            if not room.waiting:
                room.fit(self._step.extents(room.dims))
        self._make_outputs(fresh=fresh)

    def _solve(self, arrays: Sequence[Array], shapes: tuple[Any, ...]) -> tuple[Solved, Trial]:
        inputs, states = self._signature.inputs, self._signature.states
        key = (shapes, tuple(array.dtype for array in arrays))
        if key not in self._solved:
            if len(self._solved) == _MOST_SHAPES:
                self._solved.clear()
            given = dict(zip((each.name for each in inputs), arrays, strict=True)) | self._states
            symbols = bind((*inputs, *states), given)
            plan = self._executable.plan
            solved = tuple(
                (value, symbols[name]) for name, value in plan.symbols if name in symbols
            )
            if not fits_64_bits(plan, solved):
                sizes = ", ".join(f"{name} = {size}" for name, size in symbols.items())
                raise InputError(f"there is no memory for {sizes}: use smaller inputs")
            self._solved[key] = solved, Trial()
        return self._solved[key]

    def _make_outputs(self, *, fresh: bool) -> None:
        """Make the outputs whose extents are known at the start."""
        self._outputs, self._fresh = {}, fresh
        self._late = [room for room in self._output_rooms if room.waiting]
        for room in self._output_rooms:
            if not room.waiting:
                self._outputs[room.name] = room.array(self._step.place, fresh=fresh)

    def _make_late_outputs(self) -> None:
        """Make the outputs whose extents are known by now."""
        for room in [room for room in self._late if room.waiting <= self._step.bound]:
            room.fit(self._step.extents(room.dims))
            self._outputs[room.name] = room.array(self._step.place, fresh=self._fresh)
            self._late.remove(room)


def _output_rooms(executable: CpuExecutable) -> list[OutputRoom]:
    plan, signature, tables = executable.plan, executable.signature, executable.tables
    first = len(signature.inputs) + len(signature.states) + len(plan.packed)
    outputs = zip(signature.outputs, plan.outputs, strict=True)
    return [
        OutputRoom(binding, first + n, dims, tables.bound_for(dims))
        for n, (binding, dims) in enumerate(outputs)
    ]
