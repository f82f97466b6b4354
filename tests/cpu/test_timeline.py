import json
import tracemalloc
from collections import Counter
from collections.abc import Callable
from errno import ENOSPC
from pathlib import Path

import numpy as np
import pytest

from lamina.errors import UnsupportedError
from lamina.targets.base import Executable
from lamina.targets.cpu.executable import CpuExecutable
from lamina.targets.timeline import WAITING, Timeline, TracedCall, TracedStep, trace

Load = Callable[..., CpuExecutable]
X = np.ones(1000, np.float32)


def traced(executable: CpuExecutable, steps: int) -> Timeline:
    with trace(executable) as timeline:
        for _ in range(steps):
            executable(X, s=np.zeros((1000, 6), np.float32))
    return timeline


def raise_full(*_: object) -> None:
    raise OSError(ENOSPC, "No space left on device")


def programs(timeline: Timeline) -> list[Counter[int]]:
    counted = [Counter[int]() for _ in timeline.steps]
    for counter, step in zip(counted, timeline.steps, strict=True):
        for _, call, number, begin, end in step.events.tolist():
            assert begin <= end
            counter[call] += number
        del counter[WAITING]
    return counted


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_every_program_of_every_call_is_noted_once(load: Load, threads: int) -> None:
    executable = load("steps", threads)
    first, second = programs(traced(executable, 2))
    assert first == second
    assert set(range(len(executable.plan.calls))) - set(first) == {3, 4}  # the other branch
    assert first.pop(6) == threads  # its grid is the number of workers
    alone = programs(traced(load("steps", 1), 1))[0]
    assert first == Counter({call: number for call, number in alone.items() if call != 6})


def test_what_one_worker_does_does_not_overlap(load: Load) -> None:
    for step in traced(load("steps", 2), 3).steps:
        for worker in (0, 1):
            times = step.events[step.events[:, 0] == worker, 3:].ravel()
            assert (np.diff(times) >= 0).all()


def test_steps_before_and_after_are_not_noted(load: Load) -> None:
    executable = load("steps")
    timeline = traced(executable, 1)
    executable(X, s=np.zeros((1000, 6), np.float32))
    assert len(timeline.steps) == 1
    assert executable.timeline is None


def test_a_call_says_as_much_of_its_work_as_its_kernel_does(load: Load) -> None:
    (step,) = traced(load("steps"), 1).steps
    double = TracedCall("double", "n=16", bytes=8 * len(X), float_ops=None, integer_ops=0)
    assert step.calls[:3] == [double, TracedCall("small"), double]


def test_a_trace_that_cannot_be_written_leaves_the_file_as_it_was(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeline, path = traced(load("steps"), 1), tmp_path / "trace.json"
    path.write_text("before")
    monkeypatch.setattr("os.replace", raise_full)
    with pytest.raises(OSError, match="No space"):
        timeline.write(path)
    assert [each.name for each in tmp_path.iterdir()] == ["trace.json"]
    assert path.read_text() == "before"


def test_a_viewer_is_given_kernels_by_thread(load: Load, tmp_path: Path) -> None:
    executable = load("steps", 2)
    traced(executable, 1).write(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert {event["name"] for event in spans} - {"wait"} == set(executable.plan.kernels)
    assert min(event["ts"] for event in spans) == 0


def test_a_target_without_a_timeline_is_named(interpret: Callable[[str], Executable]) -> None:
    with (
        pytest.raises(UnsupportedError, match="a ReferenceExecutable keeps no timeline"),
        trace(interpret("steps")),
    ):
        pass


def test_writing_many_steps_takes_little_memory(tmp_path: Path) -> None:
    step = TracedStep([TracedCall("kernel")], np.zeros((100, 5), np.int64), 1)
    empty = TracedStep([], np.zeros((0, 5), np.int64), 0)
    tracemalloc.start()
    Timeline([step, empty] * 100).write(tmp_path / "trace.json")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    written = (tmp_path / "trace.json").read_text()
    assert peak < len(written) / 2
    assert json.loads(written)["otherData"] == {"events lost": 100}
    assert written.count('"ph":"X"') == 10_000
