"""What the workers of an executable did and when: read as a table, or written for a viewer."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from lamina.atomic_file import write_whole
from lamina.errors import UnsupportedError
from lamina.targets.base import Executable

Events = npt.NDArray[np.int64]
"""[n, 5]: worker, call of the plan (-1: waiting for the others), programs run, and the times of a
steady clock in ns at which they began and were over."""

WAITING: Final = -1

_MODE: Final = 0o666


@dataclass(frozen=True)
class TracedCall:
    """A call of the plan: its kernel, what that was built with, and what it does.

    `bytes` are those that it moves, `float_ops` and `integer_ops` the operations of its products;
    None where nothing says them, because they depend on data.
    """

    kernel: str
    schedule: str = ""
    bytes: int | None = None
    float_ops: int | None = None
    integer_ops: int | None = None


@dataclass(frozen=True)
class TracedStep:
    """One step: the calls of the plan, what happened, and how many events found no room.

    `places` are what workers are called, by number, where they are no threads of the CPU.
    """

    calls: Sequence[TracedCall]
    events: Events
    lost: int
    places: Sequence[str] = ()

    @property
    def seconds(self) -> float:
        """From the first event's beginning to the end of the last."""
        if not len(self.events):
            return 0.0
        return float(self.events[:, 4].max() - self.events[:, 3].min()) * 1e-9


@runtime_checkable
class Traced(Protocol):
    """An executable that notes its steps in `timeline` while there is one."""

    timeline: Timeline | None


@dataclass
class Timeline:
    """Steps in the order in which they ran, while an executable's `timeline` was this."""

    steps: list[TracedStep] = field(default_factory=list[TracedStep])

    def write(self, path: Path) -> None:
        """Write the steps in the trace event format, which Perfetto and chrome://tracing show.

        The file is there whole or, where that fails (`OSError`), as it was before.
        """
        write_whole(path, self._pieces(), mode=_MODE)

    def _pieces(self) -> Iterator[bytes]:
        """Yield the file step by step: as objects, all events take many times their size."""
        first = min(
            (int(step.events[:, 3].min()) for step in self.steps if len(step.events)), default=0
        )
        workers = {
            int(worker): step.places[int(worker)] if step.places else f"worker {worker}"
            for step in self.steps
            for worker in np.unique(step.events[:, 0])
        }
        names = [_name("thread_name", worker, name) for worker, name in sorted(workers.items())]
        yield b'{"traceEvents":[' + _listed([_name("process_name", 0, "lamina"), *names])
        for number, step in enumerate(self.steps):
            if events := [_event(number, step, row, first) for row in step.events.tolist()]:
                yield b"," + _listed(events)
        lost = sum(step.lost for step in self.steps)
        yield b'],"otherData":' + _json({"events lost": lost}).encode() + b"}"


def check_traced(executable: Executable) -> None:
    """Raise `UnsupportedError` if `executable` keeps no timeline."""
    if not isinstance(executable, Traced):
        kind = type(executable).__name__
        raise UnsupportedError(
            f"a {kind} keeps no timeline: use the target cpu, or one that has a device"
        )


@contextmanager
def trace(executable: Executable) -> Generator[Timeline]:
    """Note the steps of `executable` until the block is left; every thread's are.

    Raises `UnsupportedError` if it keeps no timeline.
    """
    check_traced(executable)
    assert isinstance(executable, Traced)
    before, timeline = executable.timeline, Timeline()
    executable.timeline = timeline
    try:
        yield timeline
    finally:
        executable.timeline = before


def _listed(events: Sequence[Mapping[str, Any]]) -> bytes:
    return ",".join(map(_json, events)).encode()


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))


def _name(what: str, worker: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": 0, "tid": worker, "name": what, "args": {"name": name}}


def _event(number: int, step: TracedStep, row: list[int], first: int) -> dict[str, Any]:
    worker, call, programs, begin, end = row
    times = {"ts": (begin - first) / 1e3, "dur": (end - begin) / 1e3}
    place = {"ph": "X", "pid": 0, "tid": worker, **times}
    if call == WAITING:
        return {**place, "name": "wait", "args": {"step": number}}
    args = {"step": number, "call": call, "programs": programs}
    return {**place, "name": step.calls[call].kernel, "args": args}
