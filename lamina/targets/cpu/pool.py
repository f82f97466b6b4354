"""The worker threads of this process: started when first needed, asleep when there is no step."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from typing import Final, Protocol

from lamina.errors import InputError
from lamina.targets.cpu.cpu_time import CpuTime, cpu_times
from lamina.targets.cpu.runtime import DONE, HOST, native_runtime
from lamina.targets.cpu.threads import MOST_THREADS
from lamina.targets.memory import allocate

_POOL_BYTES: Final = 192
_MAILBOX_BYTES: Final = 64
_INDEX_WORD: Final = 1


class Runnable(Protocol):
    """A step: where its fields lie, and how many walk it."""

    @property
    def address(self) -> int:
        """The address of its fields."""
        ...

    @property
    def workers(self) -> int:
        """The number of threads, the caller's among them."""
        ...


class Pool:
    """Threads that stay in native code, and the memory over which they meet."""

    def __init__(self) -> None:
        """Start no thread yet."""
        self._runtime = native_runtime()
        self._memory = allocate(_POOL_BYTES + _MAILBOX_BYTES * MOST_THREADS)
        self._address = self._memory.ctypes.data
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._running = 0
        self._current: Runnable | None = None

    @property
    def address(self) -> int:
        """Where the pool's memory begins."""
        return self._address

    def run(self, step: Runnable, serve: Callable[[], None]) -> None:
        """Walk a step to its end; `serve` makes each host call that it stops at.

        Steps of several workers wait their turn; a step of one needs neither thread nor turn.
        Whatever is raised on the way, Ctrl-C included, the rest of the step is skipped first.
        """
        if step.workers == 1:
            self._drive(step, serve)
            return
        with self._lock:
            if self._current is not None:
                # A second Ctrl-C came before the first had ended the step.
                self._runtime.abandon(self._current.address)
            self._grow(step.workers - 1)
            self._current = step
            self._drive(step, serve)
            self._current = None

    def _drive(self, step: Runnable, serve: Callable[[], None]) -> None:
        try:
            status = self._runtime.run(step.address)
            while status != DONE:
                if status == HOST:
                    serve()
                status = self._runtime.resume(step.address)
        except BaseException:
            self._runtime.abandon(step.address)
            raise

    def cpu_times(self, workers: int) -> list[CpuTime] | None:
        """Return what the caller and the first of the other `workers` had of the CPUs so far.

        None if the system does not tell.
        """
        ids = [thread.native_id for thread in self._threads[: workers - 1]]
        return cpu_times([threading.get_native_id(), *(each for each in ids if each is not None)])

    def stop(self) -> None:
        """End the threads; a step that runs in another thread keeps them."""
        if not self._lock.acquire(timeout=1):
            return
        for index in range(self._running):
            self._runtime.post(self._mailbox(index), None)
        for thread in self._threads[: self._running]:
            thread.join(timeout=1)
        self._threads.clear()
        self._running = 0
        self._memory[:] = 0
        self._lock.release()

    def _grow(self, count: int) -> None:
        """Have `count` threads run; an interrupt on the way leaves the rest to the next step."""
        while self._running < count:
            if self._running == len(self._threads):
                self._threads.append(self._worker(self._running))
            thread = self._threads[self._running]
            try:
                if thread.ident is None:
                    thread.start()
            except RuntimeError:
                self._threads.pop()
                number = self._running + 2
                raise InputError(
                    f"threads: the system refuses to start thread {number}: ask for fewer"
                ) from None
            self._running += 1

    def _worker(self, index: int) -> threading.Thread:
        at = _POOL_BYTES + index * _MAILBOX_BYTES
        self._memory[at : at + _MAILBOX_BYTES].view("i8")[_INDEX_WORD] = index + 1
        return threading.Thread(
            target=self._runtime.work,
            args=(self._mailbox(index), self.address),
            name=f"lamina-worker-{index + 1}",
            daemon=True,
        )

    def _mailbox(self, index: int) -> int:
        return self.address + _POOL_BYTES + index * _MAILBOX_BYTES


_pool: Pool | None = None
_making: threading.Lock = threading.Lock()


def pool() -> Pool:
    """Return the pool of this process."""
    global _pool  # noqa: PLW0603
    if _pool is None:
        with _making:
            if _pool is None:
                _pool = Pool()
    return _pool


def _forget() -> None:
    # A forked child has none of its parent's threads, and may have copied a lock that is held.
    global _pool, _making
    _pool, _making = None, threading.Lock()


def _stop() -> None:
    if _pool is not None:
        _pool.stop()


os.register_at_fork(after_in_child=_forget)
atexit.register(_stop)
