"""Many kernels compiled by several processes: LLVM's Python binding has one lock in each."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from os.path import abspath
from queue import Empty, SimpleQueue
from struct import Struct
from typing import IO, Final

from lamina.errors import LoweringError
from lamina.progress import report
from lamina.targets.cpu.codegen import compile_text
from lamina.targets.cpu.features import CpuFeatures

_WORTH: Final = 200_000
"""Characters of text that take about as long to compile as a process takes to start."""

_LENGTH: Final = Struct("<BQ")
_DONE, _REFUSED = 0, 1
_PATIENCE: Final = 5.0
"""Seconds that a child has to leave after its input was closed."""


def compile_many(texts: Sequence[str], features: CpuFeatures, jobs: int) -> list[bytes]:
    """Return the object code of each LLVM module, compiled by up to `jobs` processes.

    A child that cannot be started, or dies, costs time alone: its work is done here. LoweringError
    if LLVM refuses a text.
    """
    todo: SimpleQueue[int] = SimpleQueue()
    for index in sorted(range(len(texts)), key=lambda i: -len(texts[i])):
        todo.put(index)
    objects: dict[int, bytes] = {}
    refusals: list[str] = []
    children = min(jobs, len(texts), 1 + sum(map(len, texts)) // _WORTH) - 1
    threads = [
        threading.Thread(target=_delegate, args=(texts, features, todo, objects, refusals))
        for _ in range(children)
    ]
    for thread in threads:
        thread.start()
    try:
        for index in _taken(todo):
            objects[index] = compile_text(texts[index], features)
            report("compiling kernels", len(objects), len(texts))
    finally:
        for _ in _taken(todo):
            pass
        for thread in threads:
            thread.join()
    if refusals:
        raise LoweringError(refusals[0])
    for index in range(len(texts)):
        if index not in objects:
            objects[index] = compile_text(texts[index], features)
    return [objects[index] for index in range(len(texts))]


def serve(source: IO[bytes], sink: IO[bytes]) -> None:
    """Compile the texts that come from `source` until it ends, for the features that come first."""
    first = _receive(source)
    if first is None:
        return
    features = CpuFeatures(**json.loads(first[1]))
    while (message := _receive(source)) is not None:
        try:
            _send(sink, _DONE, compile_text(message[1].decode(), features))
        except LoweringError as error:
            _send(sink, _REFUSED, str(error).encode())


def _delegate(
    texts: Sequence[str],
    features: CpuFeatures,
    todo: SimpleQueue[int],
    objects: dict[int, bytes],
    refusals: list[str],
) -> None:
    try:
        with _child() as (sink, source):
            _send(sink, _DONE, json.dumps(asdict(features)).encode())
            for index in _taken(todo):
                _send(sink, _DONE, texts[index].encode())
                answer = _receive(source)
                if answer is None:
                    return
                if answer[0] == _REFUSED:
                    refusals.append(answer[1].decode())
                    return
                objects[index] = answer[1]
    except OSError:
        # The pipe broke or there was no process to be had: what is missing is compiled here.
        return


@contextmanager
def _child() -> Generator[tuple[IO[bytes], IO[bytes]]]:
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


def _taken(todo: SimpleQueue[int]) -> Iterator[int]:
    while True:
        try:
            yield todo.get_nowait()
        except Empty:
            return


def _send(sink: IO[bytes], kind: int, body: bytes) -> None:
    sink.write(_LENGTH.pack(kind, len(body)))
    sink.write(body)
    sink.flush()


def _receive(source: IO[bytes]) -> tuple[int, bytes] | None:
    header = source.read(_LENGTH.size)
    if len(header) < _LENGTH.size:
        return None
    kind, size = _LENGTH.unpack(header)
    body = source.read(size)
    return (kind, body) if len(body) == size else None
