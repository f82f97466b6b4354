import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from lamina.errors import InputError
from lamina.targets.artifact_store import artifact_to_bytes
from lamina.targets.base import Executable
from lamina.targets.cpu.executable import CpuExecutable
from lamina.targets.cpu.features import detect
from lamina.targets.cpu.jit import compile_text, load_object

Load = Callable[..., CpuExecutable]


def inputs(size: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    numbers = np.random.default_rng(seed)
    return numbers.normal(size=size).astype("f4"), numbers.normal(size=(size, 6)).astype("f4")


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 31, 1000])
def test_a_plan_gives_the_bits_of_the_reference(
    load: Load, interpret: Callable[[str], Executable], size: int, threads: int
) -> None:
    x, state = inputs(size)
    expected_state = state.copy()
    out = load("steps", threads)(x, s=state)
    expected = interpret("steps")(x, s=expected_state)
    assert out["y"].tobytes() == expected["y"].tobytes()
    assert out["z"].tobytes() == expected["z"].tobytes()
    assert state.tobytes() == expected_state.tobytes()


def test_one_artifact_serves_extents_in_any_order(load: Load) -> None:
    for size in (5, 1000, 0, 3, 999, 1):
        x, state = inputs(size)
        assert np.array_equal(load("steps")(x, s=state)["z"], x + x)


def test_a_check_that_fails_names_its_node(load: Load) -> None:
    x = np.ones(100, np.float32)
    x[77] = -1
    with pytest.raises(InputError, match="/embed/Gather: a value of the input is out of range"):
        load("checked")(x)
    assert np.array_equal(load("checked")(abs(x))["y"], 2 * abs(x))


@pytest.mark.parametrize("threads", [1, 2])
def test_a_host_call_runs_between_launches(load: Load, threads: int) -> None:
    x, ids = inputs(100)[0], np.arange(100, dtype=np.int32)[::-1]
    assert np.array_equal(load("hosted", threads)(x, ids)["y"], 4 * x[::-1])


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_in_a_host_call_ends_the_step(load: Load, threads: int) -> None:
    x, ids = inputs(100)[0], np.arange(100, dtype=np.int32)
    with pytest.raises(InputError, match="/take: the index 100 is outside"):
        load("hosted", threads)(x, ids + 1)
    assert np.array_equal(load("hosted", threads)(x, ids)["y"], 4 * x)


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_a_step_and_leaves_the_executable_usable(load: Load, threads: int) -> None:
    exe, x = load("slow", threads), np.ones(1_000_000, np.float32)
    timer = threading.Timer(0.15, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    start = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        exe(x)
    assert time.perf_counter() - start < 0.65
    assert np.array_equal(exe(x[:3])["y"], np.full(3, 400_000, np.float32))


def test_threads_that_call_at_once_wait_their_turn(load: Load) -> None:
    exe = load("steps")

    def call(seed: int) -> bool:
        x, state = inputs(500, seed)
        return np.array_equal(exe(x, s=state)["z"], x + x)

    with ThreadPoolExecutor(4) as callers:
        assert all(callers.map(call, range(200)))


def test_workers_sleep_when_there_is_no_step(load: Load) -> None:
    x, state = inputs(1000)
    load("steps")(x, s=state)
    time.sleep(0.01)
    before = time.process_time()
    time.sleep(1.0)
    assert time.process_time() - before < 0.01


PINNED = """
import os, sys, numpy as np
from pathlib import Path
from lamina.targets.artifact_store import artifact_from_bytes
from lamina.targets.cpu.loading import load_artifact
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
x = np.ones(1000, np.float32)
for threads in (1, 2, 9):
    artifact = artifact_from_bytes(Path(sys.argv[1]).read_bytes())
    exe = load_artifact(artifact, {}, lambda: threads)
    for _ in range(200):
        assert np.array_equal(exe(x)["y"], 2 * x)
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs affinity masks")
def test_more_threads_than_cpus_make_their_way(artifact: Callable, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(artifact_to_bytes(artifact("checked")))
    done = subprocess.run(
        [sys.executable, "-c", PINNED, tmp_path / "a"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_forked_child_starts_workers_of_its_own(load: Load) -> None:
    x, state = inputs(1000)
    exe = load("steps")
    exe(x, s=state)
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(exe(x, s=state)["z"], x + x) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert np.array_equal(exe(x, s=state)["z"], x + x)


FLOAT_MODE = """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
define i32 @swap_mode(i32 %mode) {
  %word = alloca [2 x i32]
  %new = getelementptr i32, ptr %word, i64 1
  call void @llvm.x86.sse.stmxcsr(ptr %word)
  store i32 %mode, ptr %new
  call void @llvm.x86.sse.ldmxcsr(ptr %new)
  %old = load i32, ptr %word
  ret i32 %old
}
"""


@pytest.mark.skipif(not detect("generic").triple.startswith("x86_64"), reason="MXCSR is of x86")
def test_the_callers_float_mode_neither_matters_nor_changes(load: Load) -> None:
    import ctypes

    features = detect("generic")
    code = load_object(compile_text(FLOAT_MODE, features), ["swap_mode"])
    swap = ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32)(code.addresses["swap_mode"])
    x = np.full(40, 1e-40, np.float32)
    flushing = 0x9FC0
    usual = swap(flushing)
    out = load("checked", 1)(x)["y"]
    assert swap(usual) & 0xFFC0 == flushing
    assert out[0] == np.float32(1e-40) + np.float32(1e-40) != 0


SCRIPT = """
import sys, numpy as np
from pathlib import Path
from lamina.targets.artifact_store import artifact_from_bytes
from lamina.targets.cpu.target import CpuTarget
exe = CpuTarget(threads=2).load(artifact_from_bytes(Path(sys.argv[1]).read_bytes()), {})
assert exe(np.ones(5, np.float32))["y"].tolist() == [2.0] * 5
assert not any(name == "xdsl" for name in sys.modules), "xDSL was imported"
"""


def test_an_artifact_runs_in_a_process_without_xdsl_which_then_exits(
    artifact: Callable[[str], object], tmp_path
) -> None:
    (tmp_path / "a").write_bytes(artifact_to_bytes(artifact("checked")))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "a")],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
