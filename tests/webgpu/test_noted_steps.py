"""Steps that are noted by an adapter's timestamps, and as a whole where it has none."""

import json

import numpy as np
import pytest
from checkpoints import CHECKPOINTS
from noted_devices import X, check_dispatches, check_host, check_limits, names
from webgpu_plans import WEIGHTS, artifact

import lamina
from lamina.targets.timeline import trace
from lamina.targets.webgpu.target import WebGpuTarget


@pytest.fixture
def load(device):
    return lambda name: WebGpuTarget().load(artifact(name), WEIGHTS)


def test_every_dispatch_is_noted_with_its_time(load):
    check_dispatches(load)


def test_what_the_host_does_is_noted_between(load):
    check_host(load)


def test_the_device_is_measured_by_copying(load):
    check_limits(load, WebGpuTarget())


def test_without_timestamps_a_step_is_noted_as_a_whole(load, monkeypatch):
    exe = load("steps")
    monkeypatch.setattr(exe.device, "period", 0.0)
    with trace(exe) as timeline:
        exe(X, s=np.zeros((X.size, 6), np.float32))
    (step,) = timeline.steps
    assert names(step) == [("device", "(all kernels)")]
    assert step.seconds > 0


@pytest.mark.gpu
def test_a_bench_is_held_against_the_adapter(device, command, tmp_path):
    path = CHECKPOINTS["gguf-q4_0"]().write(tmp_path)
    short = ("--prompt-tokens", 8, "-n", 2, "--repeat", 1)
    code, out, err = command("bench", path, *short, "--target", "webgpu", "--json")
    assert code == 0, err
    told = json.loads(out)
    assert told["limits"]["device"] == device.name
    for phase in told["phases"]:
        spent = sum(row["seconds"] for row in phase["step"]["kernels"])
        assert 0 < spent <= phase["step"]["seconds"] * (1 + 1e-9)


@pytest.mark.gpu
def test_a_profile_names_the_kernels_of_the_device(device, command, tmp_path):
    path = CHECKPOINTS["gguf-q4_0"]().write(tmp_path)
    profile = tmp_path / "trace.json"
    options = ("--random", "--dim", "T=4", "--target", "webgpu", "--profile", profile)
    code, _, err = command("run", path, *options)
    assert code == 0, err
    events = json.loads(profile.read_text())["traceEvents"]
    assert {"device"} <= {e["args"].get("name") for e in events if e["name"] == "thread_name"}
    assert any("linear" in each["name"] for each in events)


@pytest.mark.gpu
def test_schedules_are_not_tuned_on_a_device(device, command, tmp_path):
    path = CHECKPOINTS["gguf-q4_0"]().write(tmp_path)
    code, _, err = command("tune", path, "--target", "webgpu")
    assert code == 1
    assert "webgpu takes its schedules from its cost model alone" in err


@pytest.mark.gpu
def test_a_decoder_is_traced_from_python(device, tmp_path):
    llm = lamina.LLM(CHECKPOINTS["llama"]().write(tmp_path), target="webgpu")
    with llm.trace() as timeline:
        llm.generate([[1, 2, 3]], max_new_tokens=2)
    assert len(timeline.steps) == 2
    assert all(step.seconds > 0 for step in timeline.steps)
