"""What a step of some shapes does on a device, made ready once and run many times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Generic, TypeVar

import numpy as np

from lamina.targets.base import Signature
from lamina.targets.memory import element_dtype
from lamina.targets.plans.dispatches import Barrier, Dispatch, Dispatches, HostTask, Task
from lamina.targets.plans.plan_tables import ARENA, FIRST_ARRAY, Plan

B = TypeVar("B")
R = TypeVar("R")
"""A run of dispatches that is ready: commands, or a graph of them."""

Places = Mapping[int, tuple[B, int]]
"""Where each base (see `plan_tables`) begins: a buffer, and a byte of it."""


@dataclass(frozen=True)
class Output:
    """An output of a step: its name, base, shape and dtype."""

    name: str
    base: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """The bytes that it takes."""
        return prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class Step(Generic[B, R]):
    """A step made ready: runs of dispatches, with what the host does between two of them."""

    dispatches: Dispatches
    outputs: tuple[Output, ...]
    places: Places[B]
    runs: tuple[R, ...]
    hosts: tuple[tuple[HostTask, ...], ...]


def outputs_of(signature: Signature, plan: Plan, dispatches: Dispatches) -> tuple[Output, ...]:
    """Return the outputs of a step in the signature's order."""
    first = FIRST_ARRAY + plan.arrays - len(signature.outputs)
    pairs = zip(signature.outputs, dispatches.outputs, strict=True)
    return tuple(
        Output(binding.name, first + n, binding.seen(shape), element_dtype(binding.dtype))
        for n, (binding, shape) in enumerate(pairs)
    )


def array_name(signature: Signature, plan: Plan, base: int) -> str:
    """Return what the memory of a base is called in messages."""
    if base == ARENA:
        return "what is between kernels"
    named = (
        *(f"input {each.name!r}" for each in (*signature.inputs, *signature.states)),
        *(f"weight {each.name!r}" for each in plan.packed),
        *(f"output {each.name!r}" for each in signature.outputs),
    )
    return named[base - FIRST_ARRAY]


def runs_of(
    tasks: Sequence[Task],
) -> tuple[list[list[Dispatch]], tuple[tuple[HostTask, ...], ...]]:
    """Return the dispatches before, between and after what the host does, and that.

    Each dispatch of a run sees what the one before it wrote, so barriers are nothing of their own.
    """
    runs: list[list[Dispatch]] = [[]]
    hosts: list[tuple[HostTask, ...]] = []
    for task in tasks:
        if isinstance(task, Dispatch):
            runs[-1].append(task)
        elif not isinstance(task, Barrier):
            if runs[-1] or not hosts:
                runs.append([])
                hosts.append(())
            hosts[-1] += (task,)
    return runs, tuple(hosts)
