"""The native runtime: `runtime.ll` made whole for this platform, compiled once and loaded."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from string import Template
from typing import Final

from lamina import knobs
from lamina.errors import TargetUnavailable
from lamina.targets.artifact_store import ArtifactCache, digest_of
from lamina.targets.base import Artifact, Signature
from lamina.targets.cpu.features import CpuFeatures, detect

DONE, POLL, HOST = 0, 1, 2
"""What `run` and `resume` return: the step is over, wants a look at signals, or a host call."""


@dataclass(frozen=True)
class NativeRuntime:
    """The functions of `runtime.ll`, called by address without the interpreter's lock.

    `run`, `resume`, `abandon` and `evaluate` take a step; `post` a mailbox and a step; `work` a
    mailbox and a pool, and returns when null was posted.
    """

    run: Callable[[int], int]
    resume: Callable[[int], int]
    abandon: Callable[[int], None]
    evaluate: Callable[[int], None]
    post: Callable[[int, int | None], None]
    work: Callable[[int, int], None]


_NAMES: Final = ("run_step", "resume_step", "abandon_step", "evaluate", "post", "work")
_SECTION: Final = "runtime"
_loaded: list[object] = []
_compiled: dict[str, bytes] = {}


@cache
def native_runtime() -> NativeRuntime:
    """Return the runtime, compiled at the first call in a process."""
    from lamina.targets.cpu.jit import load_object

    code = load_object(_object_code(detect("generic")), _NAMES, libc=True)
    _loaded.append(code)
    symbols = code.addresses
    step = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)
    one = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    two = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    return NativeRuntime(
        run=step(symbols["run_step"]),
        resume=step(symbols["resume_step"]),
        abandon=one(symbols["abandon_step"]),
        evaluate=one(symbols["evaluate"]),
        post=two(symbols["post"]),
        work=two(symbols["work"]),
    )


@contextmanager
def runtime_under_way() -> Generator[None]:
    """Have another process compile the runtime while the block runs, where that is still to do.

    The memory that LLVM takes is that process's then.
    """
    from lamina.targets.cpu.kernel_compiler import KernelCompiler

    features = detect("generic")
    if _kept(features) is not None:
        yield
        return
    with KernelCompiler(features, processes=1, worth=1) as compiler:
        compiler.add(runtime_text(features))
        yield
        _keep(features, *compiler.objects())


def _object_code(features: CpuFeatures) -> bytes:
    """Return the compiled runtime, from the cache folder if it was kept there."""
    from lamina.targets.cpu.jit import compile_text

    if (code := _kept(features)) is None:
        code = compile_text(runtime_text(features), features)
        _keep(features, code)
    return code


def _kept(features: CpuFeatures) -> bytes | None:
    cache, key = _place(features)
    if key not in _compiled and cache is not None and (found := cache.find(key)) is not None:
        _compiled[key] = found.sections[_SECTION]
    return _compiled.get(key)


def _keep(features: CpuFeatures, code: bytes) -> None:
    cache, key = _place(features)
    _compiled[key] = code
    if cache is not None:
        cache.keep(key, Artifact("cpu", Signature((), ()), {_SECTION: code}, {}))


def _place(features: CpuFeatures) -> tuple[ArtifactCache | None, str]:
    import llvmlite

    folder = knobs.kept_dir()
    parts = (runtime_text(features), repr(features), llvmlite.__version__)
    key = digest_of([part.encode() for part in parts])
    return None if folder is None else ArtifactCache(folder / "artifacts"), key


@cache
def runtime_text(features: CpuFeatures) -> str:
    """Return `runtime.ll` with what this processor and system add to it."""
    architecture = features.triple.split("-", maxsplit=1)[0]
    if architecture not in _PROCESSORS:
        raise TargetUnavailable(
            f"the CPU runtime knows {' and '.join(_PROCESSORS)}, this machine is {architecture}"
        )
    linux = sys.platform.startswith("linux")
    waiting = Template(_FUTEX if linux else _SLEEP).substitute(
        futex=_FUTEX_CALLS[architecture], clock=1 if linux else 6
    )
    walker = files("lamina.targets.cpu").joinpath("runtime.ll").read_text(encoding="utf-8")
    triple = f'target triple = "{features.triple}"'
    return "\n".join((triple, walker, _PROCESSORS[architecture], waiting))


_FUTEX_CALLS: Final = {"x86_64": 202, "aarch64": 98}
"""The number of the system call on Linux."""

_CLOCK: Final = """
declare i32 @clock_gettime(i32, ptr)

define internal i64 @clock() {
  %time = alloca [2 x i64]
  %status = call i32 @clock_gettime(i32 $clock, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr [2 x i64], ptr %time, i64 0, i64 1
  %rest = load i64, ptr %rest.at
  %whole = mul i64 %seconds, 1000000000
  %sum = add i64 %whole, %rest
  ret i64 %sum
}
"""

_FUTEX: Final = f"""{_CLOCK}
declare i64 @syscall(i64, ...)

; FUTEX_WAIT and FUTEX_WAKE, private to the process.
define internal void @wait(ptr %word, i32 %old) {{
  %status = call i64 (i64, ...) @syscall(i64 $futex, ptr %word, i64 128, i32 %old, ptr null)
  ret void
}}

define internal void @wake(ptr %word) {{
  %status = call i64 (i64, ...) @syscall(i64 $futex, ptr %word, i64 129, i64 2147483647)
  ret void
}}
"""

_SLEEP: Final = f"""{_CLOCK}
declare i32 @usleep(i32)

define internal void @wait(ptr %word, i32 %old) {{
  %status = call i32 @usleep(i32 100)
  ret void
}}

define internal void @wake(ptr %word) {{
  ret void
}}
"""

_X86: Final = """
declare void @llvm.x86.sse2.pause()
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)

define internal void @pause() alwaysinline {
  call void @llvm.x86.sse2.pause()
  ret void
}

declare void @llvm.x86.sse.sfence()

; Stores past the caches are seen by others before what follows.
define internal void @settle() alwaysinline {
  call void @llvm.x86.sse.sfence()
  ret void
}

; Denormals are kept and results rounded to nearest, whatever the caller has chosen.
define internal i64 @enter_float_mode() {
  %word = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %word)
  %old = load volatile i32, ptr %word
  store volatile i32 8064, ptr %word
  call void @llvm.x86.sse.ldmxcsr(ptr %word)
  %mode = zext i32 %old to i64
  ret i64 %mode
}

define internal void @leave_float_mode(i64 %mode) {
  %word = alloca i32
  %old = trunc i64 %mode to i32
  store volatile i32 %old, ptr %word
  call void @llvm.x86.sse.ldmxcsr(ptr %word)
  ret void
}
"""

_ARM: Final = """
declare void @llvm.aarch64.hint(i32)
declare i64 @llvm.aarch64.get.fpcr()
declare void @llvm.aarch64.set.fpcr(i64)

define internal void @pause() alwaysinline {
  call void @llvm.aarch64.hint(i32 1)
  ret void
}

; Barriers order stores past the caches as they do all others.
define internal void @settle() alwaysinline {
  ret void
}

; Denormals are kept and results rounded to nearest, whatever the caller has chosen.
define internal i64 @enter_float_mode() {
  %mode = call i64 @llvm.aarch64.get.fpcr()
  call void @llvm.aarch64.set.fpcr(i64 0)
  ret i64 %mode
}

define internal void @leave_float_mode(i64 %mode) {
  call void @llvm.aarch64.set.fpcr(i64 %mode)
  ret void
}
"""

_PROCESSORS: Final = {"x86_64": _X86, "aarch64": _ARM}
