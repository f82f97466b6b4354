"""Lamina's side: a module compiled and held by a session, timed inside its steps."""

from collections.abc import Mapping
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp

import lamina
from lamina.frontend.model import Weights
from lamina.runtime.pools import allocate_pools
from lamina.targets.base import Executable
from lamina.targets.cpu.executable import CpuExecutable
from lamina.targets.timeline import WAITING, TracedStep, trace

Array = npt.NDArray[Any]


class Calls:
    """An executable with a session, timed from the call to its return."""

    def __init__(self, executable: Executable, pages: int = 0) -> None:
        """Take memory for calls; `pages` is the size of the pools, if there are any."""
        assert isinstance(executable, CpuExecutable)
        self.executable = executable
        self._session = executable.session(allocate_pools(executable.signature.states, pages))

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Return copies of the outputs."""
        return {name: array.copy() for name, array in self._session.run(inputs).items()}

    def once(self, inputs: Mapping[str, Array]) -> list[float]:
        """Return the seconds of a call."""
        began = perf_counter()
        self._session.run(inputs)
        return [perf_counter() - began]

    def spans(self, inputs: Mapping[str, Array], parts: int = 1) -> list[float]:
        """Return the seconds of each of the parts that a step does one after another.

        Times are those of the workers, from the first kernel's beginning to the last one's end:
        that inputs are put in place and that a call comes from Python is not in them.
        """
        with trace(self.executable) as timeline:
            self._session.run(inputs)
        return spans(timeline.steps[0], parts)


def compiled(
    module: ModuleOp, weights: Weights, target: str, threads: int, *, pages: int = 0
) -> Calls:
    """Compile and load a module."""
    return Calls(lamina.compile(module, target, threads=threads, weights=weights), pages)


def spans(step: TracedStep, parts: int) -> list[float]:
    """Return the seconds from each part's first beginning to the next one's.

    Calls are dealt to the parts evenly in the order in which they began; those left over come
    first and prepare the first part's input, and do not count.
    """
    if step.lost:
        raise SystemExit(f"{step.lost} events of the step found no room")
    calls = step.events[step.events[:, 1] != WAITING]
    order = calls[np.argsort(calls[:, 3], kind="stable")]
    _, firsts = np.unique(order[:, 1], return_index=True)
    begins = np.sort(order[firsts, 3])
    each, extra = divmod(len(begins), parts)
    if not each:
        raise SystemExit(f"the step has {len(begins)} calls for {parts} parts")
    edges = [*begins[extra::each], step.events[:, 4].max()]
    return (np.diff(edges) * 1e-9).tolist()


def check_close(name: str, ours: Array, theirs: Array, tolerance: float) -> None:
    """End the run if results differ by more than `tolerance` of the largest number."""
    worst = float(np.abs(ours - theirs).max()) / max(float(np.abs(theirs).max()), 1e-30)
    if not worst <= tolerance:
        raise SystemExit(f"{name}: differs from the other side by {worst:.1e} of its largest")
