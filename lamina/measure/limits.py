"""The limits of this machine that other figures are held against: memory and arithmetic."""

import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

import numpy as np

from lamina.errors import LaminaError
from lamina.measure.probes import (
    chains,
    copy_text,
    float_text,
    grain,
    integer_step,
    integer_text,
    read_text,
)
from lamina.progress import report
from lamina.targets.cpu.codegen import compile_text
from lamina.targets.cpu.features import CpuFeatures, detect
from lamina.targets.cpu.jit import load_object
from lamina.targets.cpu.threads import default_threads
from lamina.targets.memory import Array, allocate

DISTANCES: Final = (0, 512, 1280, 2048, 4096)
"""Bytes ahead of a read that are tried for prefetching; 0: no prefetch."""

_STEPS: Final = 1 << 22
_WORK: Final = "measuring the machine"
_MEASURES: Final = len(DISTANCES) + 4


@dataclass(frozen=True)
class Limits:
    """What `threads` threads together, or a `device`, reach: bytes and operations a second.

    `read` sums up memory, the best of several prefetch distances; `copy` counts bytes read and
    written, the better of plain and non-temporal stores. `float_ops` are f32 multiply-adds, each
    two operations, `integer_ops` those of 8-bit dots; 0 where the CPU has no instruction for them,
    and of devices. These copy by their own means, which counts for reading too.
    """

    threads: int
    read: float
    copy: float
    float_ops: float
    integer_ops: float
    device: str = ""

    def __str__(self) -> str:
        parts = [f"copying {self.copy / 1e9:.1f} GB/s"]
        if not self.device:
            parts.insert(0, f"reading {self.read / 1e9:.1f} GB/s")
        if self.float_ops:
            parts.append(f"f32 {self.float_ops / 1e9:.0f} GFLOP/s")
        if self.integer_ops:
            parts.append(f"8-bit {self.integer_ops / 1e9:.0f} GOP/s")
        threads = f"with {self.threads} thread{'s' * (self.threads != 1)}"
        return f"{', '.join(parts)} {f'on {self.device}' if self.device else threads}"


def measure_limits(
    threads: int, *, megabytes: int = 512, rounds: int = 5, features: CpuFeatures | None = None
) -> Limits:
    """Measure with `threads` threads at once; the best of `rounds` counts.

    Memory is a block of `megabytes` on huge pages where there are some, each thread its part.
    `features` are those of this machine by default. Raises `InputError` if there is no memory.
    """
    machine = detect() if features is None else features
    bench = _Bench(machine, threads, rounds)
    # Each thread takes a step at least, in either half where that is copied to the other.
    least = 2 * threads * grain(machine) * 8
    block = allocate(max(megabytes << 20, least)).view(np.int64)
    block[:] = 1
    read = max(bench.read(block, distance) for distance in DISTANCES)
    copy = max(bench.copy(block, streaming) for streaming in (False, True))
    return Limits(threads, read, copy, bench.floats(), bench.integers())


class _Bench:
    def __init__(self, features: CpuFeatures, threads: int, rounds: int) -> None:
        self._features, self._threads, self._rounds = features, threads, rounds
        # Threads that take turns on the CPUs share the work of as many as run at once.
        self._steps = max(1, _STEPS * min(threads, default_threads()) // threads)
        self._done = 0

    def read(self, block: Array, distance: int) -> float:
        """Return the bytes a second that are read."""
        signature = (ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64)
        probe = self._probe(read_text(self._features, distance), *signature)
        starts, count = self._parts(block)
        seconds = self._best(lambda n: probe(starts[n], count))
        if probe(starts[0], count) != count:
            raise LaminaError("the sum of what was read is wrong: this machine cannot be measured")
        return self._threads * count * 8 / seconds

    def copy(self, block: Array, streaming: bool) -> float:
        """Return the bytes a second that are read and written, from one half to the other."""
        signature = (ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)
        probe = self._probe(copy_text(self._features, streaming=streaming), *signature)
        half = len(block) // 2
        starts, count = self._parts(block[:half])
        ends, _ = self._parts(block[-half:])
        seconds = self._best(lambda n: probe(starts[n], count, ends[n]))
        return 2 * self._threads * count * 8 / seconds

    def floats(self) -> float:
        """Return the f32 operations a second; 0 without multiply-adds."""
        if not self._features.fma:
            return 0.0
        probe = self._probe(float_text(self._features), *(ctypes.c_float,) * 2, ctypes.c_int64)
        return self._operations(lambda n: probe(0.5, self._steps), 1)

    def integers(self) -> float:
        """Return the operations a second of dots of 8-bit numbers; 0 without instructions."""
        width = integer_step(self._features)
        if not width:
            return 0.0
        probe = self._probe(integer_text(self._features), *(ctypes.c_int32,) * 2, ctypes.c_int64)
        return self._operations(lambda n: probe(1, self._steps), width)

    def _operations(self, work: Callable[[int], object], width: int) -> float:
        seconds = self._best(work)
        each = self._steps * chains(self._features) * self._features.lanes(32) * width
        return 2 * self._threads * each / seconds

    def _probe(self, text: str, *signature: Any) -> Callable[..., Any]:
        code = load_object(compile_text(text, self._features), ["probe"])
        found = ctypes.CFUNCTYPE(*signature)(code.addresses["probe"])
        # The code goes when `code` does.
        return lambda *args: (code, found(*args))[1]

    def _parts(self, block: Array) -> tuple[list[int], int]:
        """Return where each thread's part begins, and the elements of a part."""
        step = grain(self._features)
        count = len(block) // self._threads // step * step
        first = block.ctypes.data
        return [first + n * count * 8 for n in range(self._threads)], count

    def _best(self, work: Callable[[int], object]) -> float:
        """Return the fewest seconds in which all threads did `work(thread)` at once."""
        best = min(together(work, self._threads) for _ in range(self._rounds))
        self._done += 1
        report(_WORK, self._done, _MEASURES)
        return best


def together(work: Callable[[int], object], threads: int) -> float:
    """Return the seconds from the first thread's beginning of `work(thread)` to the last's end."""
    ready = threading.Barrier(threads)
    times: list[float] = []

    def run(number: int) -> None:
        ready.wait()
        times.append(perf_counter())
        work(number)
        times.append(perf_counter())

    workers = [threading.Thread(target=run, args=[n]) for n in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return max(times) - min(times)
