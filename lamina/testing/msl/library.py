"""Metal kernels that run on this machine's CPU, each run in a process of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from lamina.testing.msl.compiler import build, source_line
from lamina.testing.msl.errors import MslError
from lamina.testing.msl.kernels import Kernel, kernels_of
from lamina.testing.msl.memory import Memory
from lamina.testing.msl.program import program_of

Schedule: TypeAlias = Literal[
    "forward", "reverse", "random", "simdgroup-forward", "simdgroup-reverse"
]
"""Whose turn it is: threads or whole simdgroups in order, from the last one, or by chance."""

SCHEDULES: Final[tuple[Schedule, ...]] = get_args(Schedule)
Buffer: TypeAlias = "npt.NDArray[Any] | np.generic | bytes"
Binding: TypeAlias = "tuple[Memory, int] | bytes"
_SECONDS: Final = 60
_MOST_MEMORIES: Final = 150
_KERNEL_FAILED: Final = 3


@dataclass(frozen=True)
class Launch:
    """A kernel over `grid` threadgroups of `threads` threads, and what it is bound to.

    `bindings` are memory and an offset in bytes, or at most 4096 bytes that are copied;
    `threadgroup` are sizes in bytes. `ordered`: all that was launched before is done.
    """

    kernel: str
    grid: tuple[int, int, int]
    threads: tuple[int, int, int]
    bindings: Mapping[int, Binding]
    threadgroup: Mapping[int, int] = field(default_factory=dict[int, int])
    ordered: bool = True


@dataclass(frozen=True)
class Library:
    """The kernels of a Metal text by name, and the program that runs them."""

    kernels: Mapping[str, Kernel]
    program: Path

    def run(
        self,
        kernel: str,
        buffers: Sequence[Buffer] | Mapping[int, Buffer],
        grid: Sequence[int],
        threads: Sequence[int],
        threadgroup_bytes: Sequence[int] | Mapping[int, int] = (),
        schedule: Schedule = "forward",
        *,
        seed: int = 0,
        races: bool = True,
    ) -> None:
        """Run `kernel`, which changes the arrays of `buffers` that it does not take as const.

        `grid` are threadgroups and `threads` the threads of each, in up to three dimensions.
        `MslError` tells what the kernel did that it must not do, where, and which thread did it;
        two threads that touch the same byte with no barrier between are that only if `races`.
        """
        declared = self.kernel(kernel)
        given = dict(buffers.items() if isinstance(buffers, Mapping) else enumerate(buffers))
        sizes = threadgroup_bytes
        shared = dict(sizes.items() if isinstance(sizes, Mapping) else enumerate(sizes))
        if unknown := set(given) - set(declared.buffers):
            raise MslError(f"kernel {kernel} has no buffer({min(unknown)}), which is bound")
        memories = {index: _memory(each) for index, each in given.items()}
        bindings = {index: (memory, 0) for index, memory in memories.items()}
        launch = Launch(kernel, _three(grid), _three(threads), bindings, shared)
        self.execute([launch], schedule, seed=seed, races=races)
        for index, each in given.items():
            if declared.buffers[index].writable:
                _take_back(kernel, index, each, memories[index])

    def execute(
        self,
        launches: Sequence[Launch],
        schedule: Schedule = "forward",
        *,
        seed: int = 0,
        races: bool = True,
        timeout_s: float = _SECONDS,
    ) -> None:
        """Run launches one after the other; `MslError` as in `run`, or after `timeout_s`."""
        if schedule not in SCHEDULES:
            raise MslError(f"schedule {schedule!r}: expected {', '.join(SCHEDULES)}")
        for launch in launches:
            self.refuse(launch)
        for batch in _batches(launches):
            files: dict[int, int] = {}
            lines = [f"{SCHEDULES.index(schedule)} {seed} {int(races)}"]
            for launch in batch:
                lines += self._request(launch, files)
            self._ask("\n".join((*lines, "")), list(files), timeout_s)

    def kernel(self, name: str) -> Kernel:
        """Return a kernel; `MslError` lists those that there are."""
        if name not in self.kernels:
            raise MslError(f"there is no kernel {name}: the text has {', '.join(self.kernels)}")
        return self.kernels[name]

    def refuse(self, launch: Launch) -> None:
        """Raise `MslError` if a launch does not fit its kernel."""
        kernel, name = self.kernel(launch.kernel), launch.kernel
        count = int(np.prod(launch.threads))
        if min(*launch.grid, *launch.threads) < 1:
            raise MslError(f"kernel {name}: a grid of {launch.grid} by {launch.threads} is empty")
        if count > kernel.max_threads:
            raise MslError(f"kernel {name}: {count} threads: expected at most {kernel.max_threads}")
        for index, argument in kernel.buffers.items():
            if index not in launch.bindings:
                raise MslError(f"kernel {name} takes buffer({index}), {argument.name}: not bound")
        for index, argument in kernel.threadgroups.items():
            if index not in launch.threadgroup:
                raise MslError(
                    f"kernel {name} takes threadgroup({index}), {argument.name}: no size"
                )
        if odd := [size for size in launch.threadgroup.values() if size % 16]:
            raise MslError(f"kernel {name}: {odd[0]} threadgroup bytes: expected a multiple of 16")

    def _request(self, launch: Launch, files: dict[int, int]) -> list[str]:
        kernel = self.kernel(launch.kernel)
        sizes = " ".join(map(str, (*launch.grid, *launch.threads)))
        taken: list[str] = []
        lines = [f"launch {launch.kernel} {int(launch.ordered)} {sizes}"]
        for index, argument in kernel.buffers.items():
            bound = launch.bindings[index]
            if isinstance(bound, bytes):
                lines.append(f"bytes {index} {len(bound)} {bound.hex()}")
                continue
            memory, offset = bound
            if memory.file not in files:
                files[memory.file] = len(files)
                taken.append(f"buffer {memory.file} {memory.size}")
            lines.append(f"bind {index} {files[memory.file]} {offset} {int(argument.writable)}")
        lines += [f"memory {index} {launch.threadgroup[index]}" for index in kernel.threadgroups]
        return [*taken, *lines, "run"]

    def _ask(self, request: str, files: Sequence[int], timeout_s: float) -> None:
        command = [str(self.program)]
        try:
            done = subprocess.run(
                command,
                input=request,
                capture_output=True,
                text=True,
                pass_fds=files,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise MslError(f"the kernels did not end within {timeout_s:g} s") from None
        except OSError as error:
            raise MslError(f"{self.program} cannot be run: {error.strerror}") from None
        if done.returncode == _KERNEL_FAILED:
            raise MslError(self._sentence(done.stderr))
        if done.returncode:
            raise MslError(f"the program of the kernels ended with {done.returncode}")

    def _sentence(self, told: str) -> str:
        kernel, sentence, number, codes = told.rstrip("\n").split("\t", 3)
        line = int(number) or source_line(self.program, codes.split())
        return (
            f"kernel {kernel}: line {line}: {sentence}" if line else f"kernel {kernel}: {sentence}"
        )


def compile(text: str) -> Library:
    """Return the kernels of a Metal text, built by g++ and kept in the cache folder.

    `MslError` names the line of what is wrong with the text, or the Debian package that is missing.
    """
    kernels = kernels_of(text)
    return Library(kernels, build(program_of(text, kernels.values())))


def _batches(launches: Sequence[Launch]) -> Iterator[Sequence[Launch]]:
    """Split launches so that each process has no more memories than it takes."""
    begin, held = 0, set[int]()
    for n, launch in enumerate(launches):
        files = {each[0].file for each in launch.bindings.values() if isinstance(each, tuple)}
        if len(held | files) > _MOST_MEMORIES:
            yield launches[begin:n]
            begin, held = n, set[int]()
        held |= files
    yield launches[begin:]


def _memory(given: Buffer) -> Memory:
    data = given if isinstance(given, bytes) else given.tobytes()
    return Memory(len(data), data)


def _take_back(kernel: str, index: int, given: Buffer, memory: Memory) -> None:
    if not isinstance(given, np.ndarray) or not given.flags.writeable:
        raise MslError(f"kernel {kernel} writes to buffer({index}): expected a writable array")
    given[...] = np.frombuffer(memory.view, given.dtype).reshape(given.shape)


def _three(numbers: Sequence[int]) -> tuple[int, int, int]:
    if not 1 <= len(numbers) <= 3:
        raise MslError(f"{tuple(numbers)}: expected one to three numbers")
    x, y, z = (*(int(number) for number in numbers), 1, 1)[:3]
    return x, y, z
