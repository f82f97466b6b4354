"""What a plan does for given numbers of its symbols, written out: a flat list of dispatches.

Nothing in it names a device: whoever runs it turns addresses into pointers, bind groups or
arguments, and keeps what it made for as long as the numbers stay the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lamina.errors import InputError
from lamina.targets.plans.expressions import evaluate
from lamina.targets.plans.plan_tables import (
    BARRIER,
    COPY,
    END,
    HOST_CALL,
    JUMP,
    LAUNCH,
    NULL,
    SWITCH,
    HostBuffer,
    Plan,
)

Address = tuple[int, int]
"""A base (see `plan_tables`) and an offset in bytes."""


@dataclass(frozen=True)
class Dispatch:
    """One run of the kernel of this number over a grid of blocks.

    `memrefs` says where each memref begins; `words` are, memref after memref, its dynamic extents
    and strides (in elements), and after all of them the kernel's indices. Dispatches of one `stage`
    need nothing of each other; what came in an earlier one is seen. `call` is the number of the
    plan's call.
    """

    kernel: int
    grid: tuple[int, int, int]
    memrefs: tuple[Address, ...]
    words: tuple[int, ...]
    stage: int = 0
    call: int = 0


@dataclass(frozen=True)
class Barrier:
    """What comes after sees what was written before."""


@dataclass(frozen=True)
class HostArray:
    """An array that a host call is given: where it lies, its element type, shape and access."""

    address: Address
    dtype: str
    shape: tuple[int, ...]
    access: str


@dataclass(frozen=True)
class HostDispatch:
    """The host call of this number, on these arrays."""

    number: int
    arrays: tuple[HostArray, ...]


@dataclass(frozen=True)
class CopyDispatch:
    """A copy of `size` bytes from one memory to another."""

    source: Address
    target: Address
    size: int


HostTask: TypeAlias = HostDispatch | CopyDispatch
"""What the host does itself."""

Task: TypeAlias = Dispatch | Barrier | HostTask


@dataclass(frozen=True)
class Dispatches:
    """The tasks of a step in order, the bytes of the arenas, and the shape of each output."""

    tasks: tuple[Task, ...]
    arena: int
    host_arena: int
    outputs: tuple[tuple[int, ...], ...]
    symbols: Mapping[str, int]


def dispatches_of(plan: Plan, symbols: Mapping[str, int], workers: int) -> Dispatches:
    """Return what `plan` does where its symbols have these numbers.

    `workers` is how many programs run at once. A dispatch whose grid is empty is left out.
    Raises InputError for numbers with which an address or an extent is beyond 64 bits.
    """
    values = values_of(plan, {**symbols, "workers": workers})
    if not all(-(2**63) <= number < 2**63 for number in values):
        sizes = ", ".join(f"{name} = {size}" for name, size in symbols.items())
        raise InputError(f"there is no memory for {sizes}: use smaller inputs")
    check_equal(plan.equal, values)
    return Dispatches(
        tasks=_walk(plan, values),
        arena=values[plan.arena],
        host_arena=values[plan.host_arena],
        outputs=tuple(tuple(values[v] for v in dims) for dims in plan.outputs),
        symbols={name: values[value] for name, value in plan.symbols},
    )


def check_equal(
    pairs: Iterable[tuple[int, int, str]], values: Sequence[int] | npt.NDArray[np.int64]
) -> None:
    """Raise InputError naming the node of a pair of values that differ."""
    for a, b, node in pairs:
        if values[a] != values[b]:
            raise InputError(f"{node}: an extent is {values[a]}, expected {values[b]}")


def values_of(plan: Plan, symbols: Mapping[str, int]) -> list[int]:
    """Return the values of `plan` where its symbols have these numbers."""
    return evaluate(plan, {value: symbols[name] for name, value in plan.symbols if name in symbols})


def _walk(plan: Plan, values: list[int]) -> tuple[Task, ...]:
    tasks: list[Task] = []
    here = stage = 0
    while (record := plan.records[here])[0] != END:
        opcode, here = record[0], here + 1
        if opcode == LAUNCH:
            first, calls = record[1:3]
            found = (_dispatch(plan, values, n, stage) for n in range(first, first + calls))
            tasks += [each for each in found if 0 not in each.grid]
        elif opcode == BARRIER:
            tasks.append(Barrier())
            stage += 1
        elif opcode == HOST_CALL:
            arrays = (_host_array(each, values) for each in plan.hosts[record[1]].buffers)
            tasks.append(HostDispatch(record[1], tuple(arrays)))
        elif opcode == COPY:
            tasks.append(_copy(plan.copies[record[1]], values))
        elif opcode == JUMP:
            here = record[1]
        elif opcode == SWITCH and values[record[1]] > record[2]:
            here = record[3]
    return tuple(tasks)


def _dispatch(plan: Plan, values: list[int], call: int, stage: int) -> Dispatch:
    kernel, first, count, *extents = plan.calls[call]
    x, y, z = (max(0, values[extent]) for extent in extents)
    given = plan.arguments[first : first + count]
    memrefs = tuple((base, values[value]) for base, value in given if base != NULL)
    words = tuple(values[value] for base, value in given if base == NULL)
    return Dispatch(kernel, (x, y, z), memrefs, words, stage, call)


def _copy(row: tuple[int, ...], values: list[int]) -> CopyDispatch:
    source, start, target, place, size = row
    return CopyDispatch((source, values[start]), (target, values[place]), values[size])


def _host_array(buffer: HostBuffer, values: list[int]) -> HostArray:
    shape = tuple(values[dim] for dim in buffer.dims)
    return HostArray((buffer.base, values[buffer.offset]), buffer.dtype, shape, buffer.access)
