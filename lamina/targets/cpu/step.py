"""The memory of one call at a time, as the native walker reads it."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from lamina.errors import InputError
from lamina.targets.cpu.pool import pool
from lamina.targets.cpu.runtime import native_runtime
from lamina.targets.cpu.trace import Trace
from lamina.targets.memory import ALIGNMENT, Arena, Array, allocate
from lamina.targets.plans.dispatches import check_equal
from lamina.targets.plans.expressions import fits_64_bits
from lamina.targets.plans.plan_tables import (
    ARENA,
    ARGUMENT,
    CALL,
    EXPRESSION,
    FIRST_ARRAY,
    HOST_CALL,
    RECORD,
    HostCall,
    Plan,
    table,
)
from lamina.targets.plans.traced_calls import traced_calls
from lamina.targets.timeline import Timeline, TracedCall, TracedStep

_POLL_NS: Final = 50_000_000
_COUNTER_BYTES: Final = 64
_WORDS: Final = 8
_SCRATCH_WORD, _ERROR_WORD = 3, 4
_WORKERS: Final = "workers"
_MOST_SOUND: Final = 1024


class _Fields(ctypes.Structure):
    """`%step` of `runtime.ll`."""

    _fields_ = [
        ("records", ctypes.c_void_p),
        ("calls", ctypes.c_void_p),
        ("arguments", ctypes.c_void_p),
        ("kernels", ctypes.c_void_p),
        ("expressions", ctypes.c_void_p),
        ("expression_count", ctypes.c_int64),
        ("values", ctypes.c_void_p),
        ("bases", ctypes.c_void_p),
        ("counters", ctypes.c_void_p),
        ("counter_bytes", ctypes.c_int64),
        ("areas", ctypes.c_void_p),
        ("area_bytes", ctypes.c_int64),
        ("workers", ctypes.c_int64),
        ("pool", ctypes.c_void_p),
        ("poll_interval", ctypes.c_int64),
        ("poll_time", ctypes.c_int64),
        ("here", ctypes.c_int64),
        ("error", ctypes.c_int32),
        ("skip", ctypes.c_int32),
        ("trace", ctypes.c_void_p),
        ("trace_bytes", ctypes.c_int64),
    ]


class Tables:
    """The tables of a plan and the addresses of its kernels, read by any number of steps."""

    def __init__(self, plan: Plan, kernels: Sequence[int]) -> None:
        """Lay out `plan`; `kernels` are addresses in the order of `plan.kernels`."""
        self.plan = plan
        self.records = table(plan.records, RECORD)
        self.calls = table(plan.calls, CALL)
        self.arguments = table(plan.arguments, ARGUMENT)
        self.expressions = table(plan.expressions, EXPRESSION)
        self.kernels = np.array(kernels, np.uint64)
        self.symbols = {name: value for name, value in plan.symbols}
        self.initial = np.zeros(plan.values, np.int64)
        for number, value in plan.constants:
            self.initial[value] = number
        self.bound = frozenset(bind[0] for host in plan.hosts for bind in host.binds)
        """The symbols that host calls bind, as values."""
        self._needs = _bound_symbols(plan, self.bound)
        self.equal = [(self.bound_for(row[:2]), row) for row in plan.equal]
        """Pairs of values that must be equal, with the bound symbols that they wait for."""

    def bound_for(self, values: Sequence[int]) -> frozenset[int]:
        """Return the symbols bound by host calls that any of `values` depends on."""
        return frozenset[int]().union(*(self._needs.get(value, ()) for value in values))


class Step:
    """One borrower at a time fills in symbols and bases, and runs; the arena stays for the next.

    `values` holds every number of the plan, right after `evaluate`; `bases` the address of every
    array, to be set through `place`.
    """

    def __init__(self, tables: Tables, workers: int) -> None:
        """Take the memory for `workers` threads."""
        plan = tables.plan
        self.workers = workers
        self.values = tables.initial.copy()
        self.arena = Arena()
        self._tables = tables
        self._bases = np.zeros(FIRST_ARRAY + plan.arrays, np.int64)
        self._counters = allocate(max(1, plan.launches) * _COUNTER_BYTES)
        self._scratch_at = ALIGNMENT + _round(_WORDS * plan.most_arguments)
        self._stride = self._scratch_at + _round(plan.scratch) + ALIGNMENT
        self._trace: Trace | None = None
        self._calls: list[TracedCall] = []
        self._runtime = native_runtime()
        self._fields = self._lay_out()
        self.address = ctypes.addressof(self._fields)
        self._room = 0
        self.received: Sequence[Array] = ()
        """Results of a host call that are not put where they belong yet."""
        self._symbols = np.array([value for _, value in plan.symbols], np.intp)
        self._sound = set[tuple[int, ...]]()
        self.bound = set[int]()
        """The symbols that host calls of this run have bound so far."""
        self.grown: Callable[[], None] = _nothing
        """Called when a host call has bound symbols."""
        self._employ(workers)

    def employ(self, workers: int) -> None:
        """Let `workers` threads walk the next runs; symbols stay as they are bound."""
        self._employ(workers)
        self.bind(())

    def bind(self, symbols: Sequence[tuple[int, int]]) -> None:
        """Set symbols, as (value, number), compute every expression and make the arena fit."""
        for value, number in symbols:
            self.values[value] = number
        self._runtime.evaluate(self.address)
        check_equal((row for needs, row in self._tables.equal if not needs), self.values)
        self._calls = []
        self.arena.reserve(int(self.values[self._tables.plan.arena]))
        self._bases[ARENA] = self.arena.address

    def grow(self, symbols: Sequence[tuple[int, int]], call: HostCall) -> None:
        """Set symbols in the middle of a run; what the arena holds stays.

        Raises InputError naming the node where a number cannot be an extent.
        """
        if below := [number for _, number in symbols if number < 0]:
            raise InputError(f"{call.node}: an extent is {below[0]}, expected at least 0")
        for value, number in symbols:
            self.values[value] = number
            self.bound.add(value)
        # Which symbols are bound by now follows from their numbers, as the way here does.
        numbers = self.values[self._symbols].tolist()
        sound = (id(call), *numbers) in self._sound
        if not sound and not fits_64_bits(
            self._tables.plan, zip(self._symbols.tolist(), numbers, strict=True)
        ):
            raise InputError(f"{call.node}: there is no memory for extents of {symbols[0][1]}")
        self._runtime.evaluate(self.address)
        if not sound:
            self._check_bound(symbols, call)
            if len(self._sound) == _MOST_SOUND:
                self._sound.clear()
            self._sound.add((id(call), *numbers))
        self._calls = []
        self.arena.reserve(int(self.values[self._tables.plan.arena]), keep=True)
        self._bases[ARENA] = self.arena.address
        self.grown()

    def _check_bound(self, symbols: Sequence[tuple[int, int]], call: HostCall) -> None:
        """Hold those values to one another whose last symbols have just been bound."""
        check_equal(((a, b, call.node) for a, b in call.equal), self.values)
        new = {value for value, _ in symbols}
        waiting = (row for needs, row in self._tables.equal if needs & new and needs <= self.bound)
        check_equal(waiting, self.values)

    def place(self, array: int, address: int) -> None:
        """Say where an array of the call begins; arrays count from 0."""
        self._bases[FIRST_ARRAY + array] = address

    def known(self) -> dict[str, int]:
        """Return the symbols that have values by now."""
        waiting = self._tables.bound - self.bound
        symbols = self._tables.symbols.items()
        return {name: int(self.values[value]) for name, value in symbols if value not in waiting}

    def extents(self, values: Sequence[int]) -> tuple[int, ...]:
        """Return the numbers behind `values`."""
        return tuple(map(self.values.item, values))

    def run(
        self, hosts: Sequence[Callable[[Step], None]], timeline: Timeline | None = None
    ) -> str | None:
        """Run to the end, noted in `timeline`; return the node of a check that failed, if any."""
        if timeline is not None:
            return self._traced(hosts, timeline)
        self.bound.clear()
        # Python looks for signals in the main thread only.
        watched = threading.get_ident() == threading.main_thread().ident
        self._fields.poll_interval = _POLL_NS if watched else 0
        workers = pool()
        self._fields.pool = workers.address
        workers.run(self, lambda: hosts[self._host()](self))
        error = int(self._fields.error)
        return self._tables.plan.nodes[error - 1] if error else None

    def _traced(self, hosts: Sequence[Callable[[Step], None]], timeline: Timeline) -> str | None:
        # Kept for the next step, so that noting one costs little.
        trace = self._trace = self._trace or Trace(self._room)
        self._fields.trace, self._fields.trace_bytes = trace.address, trace.stride
        try:
            return self.run(hosts)
        finally:
            self._fields.trace = None
            self._calls = self._calls or traced_calls(self._tables.plan, self.values.tolist())
            timeline.steps.append(TracedStep(self._calls, *trace.take()))

    def numbers(self, base: int, offset: int, code: str, count: int) -> Sequence[int]:
        """Return `count` numbers at a base and the value `offset`, as `struct` spells them."""
        form = f"{count}{code}"
        address = int(self._bases[base]) + int(self.values[offset])
        return struct.unpack(form, ctypes.string_at(address, struct.calcsize(form)))

    def memory(self, base: int, offset: int, size: int) -> Array:
        """Return `size` bytes at a base and the value `offset`, for a host call."""
        address = int(self._bases[base]) + int(self.values[offset])
        return np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(address)), np.uint8)

    def _host(self) -> int:
        opcode, number = self._tables.records[self._fields.here - 1, :2]
        assert opcode == HOST_CALL
        return int(number)

    def _employ(self, workers: int) -> None:
        if workers > self._room:
            self._areas = allocate(self._stride * workers)
            self._aim_workers(workers)
            self._room, self._trace = workers, None
        self.workers = self._fields.workers = workers
        if _WORKERS in self._tables.symbols:
            self.values[self._tables.symbols[_WORKERS]] = workers

    def _lay_out(self) -> _Fields:
        tables = self._tables
        return _Fields(
            records=_address(tables.records),
            calls=_address(tables.calls),
            arguments=_address(tables.arguments),
            kernels=_address(tables.kernels),
            expressions=_address(tables.expressions),
            expression_count=len(tables.expressions),
            values=_address(self.values),
            bases=_address(self._bases),
            counters=_address(self._counters),
            counter_bytes=self._counters.nbytes,
            area_bytes=self._stride,
            here=-1,
        )

    def _aim_workers(self, workers: int) -> None:
        self._fields.areas = _address(self._areas)
        error = self.address + _Fields.error.offset
        for index in range(workers):
            area = self._areas[index * self._stride : (index + 1) * self._stride]
            words = area[:ALIGNMENT].view(np.int64)
            words[_SCRATCH_WORD] = _address(area) + self._scratch_at
            words[_ERROR_WORD] = error


def _bound_symbols(plan: Plan, bound: frozenset[int]) -> dict[int, frozenset[int]]:
    """Return, for each value that depends on some of the `bound` symbols, which ones."""
    needs = {value: frozenset([value]) for value in bound}
    for _, a, b, value in plan.expressions if bound else ():
        found = needs.get(a, frozenset[int]()) | needs.get(b, frozenset[int]())
        if found:
            needs[value] = found
    return needs


def _nothing() -> None:
    pass


def _address(array: np.ndarray[Any, Any]) -> int:
    return array.ctypes.data


def _round(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
