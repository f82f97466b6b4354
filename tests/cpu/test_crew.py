import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from lamina.targets.artifact_store import artifact_to_bytes
from lamina.targets.base import Artifact, Executable
from lamina.targets.cpu.cpu_time import CpuTime, cpu_times
from lamina.targets.cpu.crew import Crew, crowded
from lamina.targets.cpu.target import CpuTarget
from lamina.targets.timeline import trace

MS = 1_000_000
CALM, HELD_BACK, IDLE = (20, 0), (10, 10), (2, 0)
"""Milliseconds of a step for which a worker ran, and waited for a CPU."""

STEP = 0.0201
WEIGHTS = {"w": np.arange(1000, dtype=np.float32)}

needs_masks = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs affinity masks and two CPUs",
)


def after(*workers: tuple[int, int]) -> list[CpuTime]:
    return [CpuTime(n, ran * MS, waited * MS) for n, (ran, waited) in enumerate(workers)]


def run(crew: Crew, now: float, *workers: tuple[int, int]) -> float:
    """Run two steps, the second with these times; return when they are over."""
    readings = iter([after(*[(0, 0)] * len(workers)), after(*workers)])
    for _ in range(2):
        crew.muster(now)
        crew.ran(now, now + STEP, lambda _: next(readings))
        now += STEP
    return now


def rest(crew: Crew, now: float) -> float:
    """Run steps until a worker that rests is back; return when that is."""
    while crew.muster(now) == 1:
        crew.ran(now, now + 0.01, lambda _: None)
        now += 0.01
    return now


@pytest.mark.parametrize(
    ("workers", "verdict"),
    [
        ((CALM, CALM), False),
        ((HELD_BACK, HELD_BACK), True),
        (((11, 0), HELD_BACK), True),
        ((CALM, HELD_BACK), False),
        ((CALM, IDLE), False),
        ((CALM, CALM, CALM, HELD_BACK), False),
        (((10, 0), (10, 0), (10, 0), HELD_BACK), True),
    ],
)
def test_workers_are_crowded_where_one_held_back_costs_more_than_it_does(
    workers: tuple[tuple[int, int], ...], verdict: bool
) -> None:
    before = after(*[(0, 0)] * len(workers))
    assert crowded(before, after(*workers), 0.02) is verdict


def test_readings_of_other_threads_say_nothing() -> None:
    early, late = after((0, 0), (0, 0)), after(HELD_BACK, HELD_BACK)
    assert not crowded(early[:1], late, 0.02)
    assert not crowded((), late, 0.02)
    assert not crowded(early, (), 0.02)


def test_a_worker_that_is_held_back_rests_and_comes_back() -> None:
    crew = Crew(lambda: 2, 0.0)
    now = run(crew, 0.0, (11, 0), HELD_BACK)
    assert crew.muster(now) == 1
    assert crew.muster(now, everyone=True) == 2
    assert crew.muster(now + 0.09) == 1
    assert crew.muster(now + 0.11) == 2


def test_it_rests_longer_each_time_that_its_return_shows_nothing_better() -> None:
    crew, rests = Crew(lambda: 2, 0.0), list[float]()
    now = 0.0
    for _ in range(6):
        start = run(crew, now, (11, 0), HELD_BACK)
        now = rest(crew, start)
        rests.append(round(now - start, 1))
    assert rests == [0.1, 0.2, 0.4, 0.8, 1.6, 1.6]


def test_a_return_that_goes_well_makes_the_next_rest_short() -> None:
    crew, now = Crew(lambda: 2, 0.0), 0.0
    for _ in range(3):
        now = rest(crew, run(crew, now, (11, 0), HELD_BACK))
    now = run(crew, now, CALM, CALM)
    now = run(crew, now, (11, 0), HELD_BACK)
    assert (crew.muster(now + 0.09), crew.muster(now + 0.11)) == (1, 2)


def test_what_happens_between_steps_does_not_count() -> None:
    crew = Crew(lambda: 2, 0.0)
    readings = iter([after((0, 0), (0, 0)), after((11, 0), HELD_BACK)])
    for now in (0.0, 0.1):
        crew.ran(now, now + STEP, lambda _: next(readings))
    assert crew.muster(0.13) == 2


def test_workers_that_just_woke_are_not_judged() -> None:
    crew = Crew(lambda: 2, 0.0)
    now = run(crew, 1.0, (11, 0), HELD_BACK)
    assert crew.muster(now) == 2
    assert crew.muster(run(crew, now + 0.01, (11, 0), HELD_BACK)) == 1


def test_a_system_that_tells_nothing_is_believed_to_be_calm() -> None:
    crew = Crew(lambda: 2, 0.0)
    for now in np.arange(0.0, 1.0, STEP):
        crew.ran(now, now + STEP, lambda _: None)
    assert crew.muster(1.0) == 2
    assert cpu_times([2**22 + 1]) is None


def test_the_number_of_cpus_is_asked_for_again_from_time_to_time() -> None:
    allowed = [2]
    crew = Crew(lambda: allowed[0], 0.0)
    allowed[0] = 1
    assert crew.muster(0.1) == 2
    assert crew.muster(0.3) == 1
    allowed[0] = 4
    assert crew.muster(0.6) == 4


@pytest.fixture
def one_cpu() -> Iterator[None]:
    """Restrict this thread to one CPU."""
    mask = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(mask)})
    yield
    os.sched_setaffinity(0, mask)


ALONE = """
import os, sys, threading, numpy as np
from pathlib import Path
from lamina.targets.artifact_store import artifact_from_bytes
from lamina.targets.cpu.target import CpuTarget
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
exe = CpuTarget(threads=8).load(artifact_from_bytes(Path(sys.argv[1]).read_bytes()), {})
assert np.array_equal(exe(np.ones(1000, np.float32))["y"], np.full(1000, 2, np.float32))
print(exe.threads, sum(each.name.startswith("lamina-worker") for each in threading.enumerate()))
"""


@needs_masks
def test_a_process_with_one_cpu_starts_no_worker_whatever_is_asked_for(
    artifact: Callable[[str], Artifact], tmp_path: Path
) -> None:
    (tmp_path / "a").write_bytes(artifact_to_bytes(artifact("checked")))
    command = [sys.executable, "-c", ALONE, tmp_path / "a"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 0\n", "")


def workers_of(exe: Executable) -> tuple[set[int], bytes]:
    """Run once; return the workers that took part, and what came out."""
    with trace(exe) as timeline:
        out = exe(np.ones(1000, np.float32), s=np.zeros((1000, 6), np.float32))
    return set(timeline.steps[0].events[:, 0].tolist()), out["y"].tobytes()


@needs_masks
def test_a_mask_that_shrinks_after_loading_leaves_one_worker(
    artifact: Callable[[str], Artifact], one_cpu: None
) -> None:
    mask = os.sched_getaffinity(0)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    exe = CpuTarget(threads=2).load(artifact("steps"), WEIGHTS)
    workers, out = workers_of(exe)
    assert workers == {0, 1}
    os.sched_setaffinity(0, mask)
    time.sleep(0.3)
    assert workers_of(exe) == ({0}, out)


@needs_masks
def test_a_mask_that_grows_after_loading_is_used(
    artifact: Callable[[str], Artifact], one_cpu: None
) -> None:
    exe = CpuTarget(threads=2).load(artifact("steps"), WEIGHTS)
    workers, out = workers_of(exe)
    assert workers == {0}
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    time.sleep(0.3)
    assert workers_of(exe) == ({0, 1}, out)
