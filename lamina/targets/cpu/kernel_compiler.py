"""Kernels compiled by other processes: LLVM takes much memory, and its binding has one lock."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator, Sized
from contextlib import contextmanager, suppress
from dataclasses import asdict
from os.path import abspath
from queue import Empty, SimpleQueue
from struct import Struct
from typing import IO, Final, Self

from lamina.errors import LoweringError
from lamina.progress import report
from lamina.targets.cpu.codegen import compile_text
from lamina.targets.cpu.features import CpuFeatures

_WORTH: Final = 200_000
"""Characters of text that take about as long to compile as a process takes to start."""

_LENGTH: Final = Struct("<BQ")
_DONE, _REFUSED = 0, 1
_LONGEST: Final = 1 << 30
_PATIENCE: Final = 5.0
"""Seconds that a child has to leave after its input was closed."""


class KernelCompiler:
    """Compiles LLVM modules in other processes, while the caller makes more of them.

    A process is started once there is work for it, up to `processes` of them. One that cannot be
    started, or dies, costs time alone: its work is done here, as it is where there are none. Use
    it as a context manager, which waits for what is being compiled.
    """

    def __init__(self, features: CpuFeatures, processes: int, worth: int = _WORTH) -> None:
        """Compile for `features`; `worth` characters of text are worth a process."""
        self._features = features
        self._processes = processes
        self._worth = worth
        self._texts: list[str] = []
        self._size = 0
        self._todo: SimpleQueue[int | None] = SimpleQueue()
        self._done: SimpleQueue[tuple[int, bytes] | LoweringError | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for _ in _taken(self._todo):
            pass
        self._end()
        for thread in self._threads:
            thread.join()

    def add(self, text: str) -> None:
        """Have one more module compiled."""
        self._todo.put(len(self._texts))
        self._texts.append(text)
        self._size += len(text)
        if len(self._threads) < min(self._processes, self._size // self._worth):
            self._start()

    def _start(self) -> None:
        # An interrupt that comes right after its start must not leave the process waiting for it.
        thread = threading.Thread(target=self._delegate, name="lamina-compiler", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # There may be no more threads.
            self._processes = len(self._threads)
        else:
            self._threads.append(thread)

    def objects(self) -> list[bytes]:
        """Return the object code of each module; LoweringError if LLVM refuses one."""
        self._end()
        objects: dict[int, bytes] = {}
        running = len(self._threads)
        while running:
            answer = self._done.get()
            if isinstance(answer, LoweringError):
                raise answer
            if answer is None:
                running -= 1
            else:
                objects[answer[0]] = answer[1]
                self._report(objects)
        for index in range(len(self._texts)):
            if index not in objects:
                objects[index] = compile_text(self._texts[index], self._features)
                self._report(objects)
        return [objects[index] for index in range(len(self._texts))]

    def _end(self) -> None:
        for _ in self._threads:
            self._todo.put(None)

    def _report(self, objects: Sized) -> None:
        report("compiling kernels", len(objects), len(self._texts))

    def _delegate(self) -> None:
        try:
            with _child() as (sink, source):
                _send(sink, _DONE, json.dumps(asdict(self._features)).encode())
                while (index := self._todo.get()) is not None:
                    _send(sink, _DONE, self._texts[index].encode())
                    kind, body = _receive(source)
                    if kind == _REFUSED:
                        self._done.put(LoweringError(body.decode()))
                        return
                    self._done.put((index, body))
        except (EOFError, OSError):
            # The pipe broke or there was no process to be had: what is missing is compiled later.
            pass
        finally:
            self._done.put(None)


def serve(source: IO[bytes], sink: IO[bytes]) -> None:
    """Compile the texts that come from `source` until it ends, for the features that come first."""
    with suppress(EOFError):
        features = CpuFeatures(**json.loads(_receive(source)[1]))
        while True:
            text = _receive(source)[1].decode()
            try:
                _send(sink, _DONE, compile_text(text, features))
            except LoweringError as error:
                _send(sink, _REFUSED, str(error).encode())


@contextmanager
def _child() -> Generator[tuple[IO[bytes], IO[bytes]]]:
    if not sys.executable or getattr(sys, "frozen", False):
        # An application that has Python inside would be started once more.
        raise FileNotFoundError("there is no interpreter to start")
    path = [abspath(entry) for entry in sys.path]
    program = (
        f"import sys; sys.path[:] = {path!r}; from {__name__} import serve; "
        "serve(sys.stdin.buffer, sys.stdout.buffer)"
    )
    # The path is handed over, so that nothing of the user's start-up files runs again.
    command = [sys.executable, "-I", "-S", "-c", program]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdin, process.stdout
    finally:
        _end(process, process.stdin, process.stdout)


def _end(process: subprocess.Popen[bytes], sink: IO[bytes], source: IO[bytes]) -> None:
    try:
        sink.close()
    except OSError:
        # A dead child's pipe cannot be flushed.
        pass
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    source.close()


def _taken(todo: SimpleQueue[int | None]) -> Iterator[int | None]:
    while True:
        try:
            yield todo.get_nowait()
        except Empty:
            return


def _send(sink: IO[bytes], kind: int, body: bytes) -> None:
    sink.write(_LENGTH.pack(kind, len(body)))
    sink.write(body)
    sink.flush()


def _receive(source: IO[bytes]) -> tuple[int, bytes]:
    """Return the kind and the body of the next message; EOFError if there is no whole one.

    What is no message, such as what an interpreter of the user's prints by itself, is an end too.
    """
    header = source.read(_LENGTH.size)
    if len(header) < _LENGTH.size:
        raise EOFError
    kind, size = _LENGTH.unpack(header)
    if kind not in (_DONE, _REFUSED) or size > _LONGEST:
        raise EOFError
    body = source.read(size)
    if len(body) < size:
        raise EOFError
    return kind, body
