"""Whole plans on the adapter: states, host calls, checks, sizes, threads, and what is carried."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from webgpu_plans import WEIGHTS, artifact, planned, reference, row

from lamina.errors import FormatError, InputError, TargetUnavailable
from lamina.plugins import manager
from lamina.targets.base import Artifact, Executable
from lamina.targets.webgpu.target import WebGpuTarget

SIZES = (0, 1, 2, 3, 5, 100)


@pytest.fixture
def load(device) -> Callable[[str], Executable]:
    return lambda name: WebGpuTarget().load(artifact(name), WEIGHTS)


def test_one_compilation_runs_every_size_as_the_reference_does(load):
    exe, expected = load("steps"), reference("steps")
    for size in (*SIZES, *reversed(SIZES)):
        states = [np.ones((size, 6), np.float32) for _ in range(2)]
        found, right = exe(row(size), s=states[0]), expected(row(size), s=states[1])
        for name, array in right.items():
            np.testing.assert_array_equal(found[name], array)
        np.testing.assert_array_equal(*states)


def test_a_host_call_reads_and_writes_the_device(load):
    ids = np.array([4, 3, 2, 1, 0], np.int32)
    found = load("copied")(row(5), ids)
    np.testing.assert_array_equal(found["y"], row(5)[::-1] * 4)


def test_a_check_names_its_node_and_the_next_call_is_fine(load):
    exe = load("checked")
    with pytest.raises(InputError, match=r"^/embed/Gather: a value of the input is out of range"):
        exe(-row(40))
    np.testing.assert_array_equal(exe(row(40))["y"], 2 * row(40))


def test_a_session_keeps_states_on_the_device_until_it_lets_go(load):
    exe, state = load("steps"), np.zeros((3, 6), np.float32)
    session = exe.session({"s": state})
    for _ in range(3):
        session.run({"x": row(3)})
    assert not state.any()
    session.let_go()
    np.testing.assert_array_equal(state, 3 * np.outer(row(3), np.arange(6)))


def test_outputs_are_the_callers_to_keep(load):
    exe, state = load("steps"), np.zeros((3, 6), np.float32)
    session = exe.session({"s": state})
    first = session.run({"x": row(3)})["z"]
    session.run({"x": -row(3)})
    np.testing.assert_array_equal(first, 2 * row(3))


def test_threads_share_an_executable(load):
    exe = load("checked")
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda size: exe(row(size))["y"], range(40)))
    for size, y in enumerate(found):
        np.testing.assert_array_equal(y, 2 * row(size))


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "input 'x' is missing"),
        ({"x": row(3), "q": row(3)}, "there is no input 'q': expected x"),
        ({"x": np.zeros(3)}, "input 'x': expected float32, got float64"),
        ({"x": np.zeros((3, 1), np.float32)}, "input 'x': expected shape"),
    ],
)
def test_a_wrong_input_is_named(load, inputs, message):
    with pytest.raises(InputError, match=message):
        load("checked")(**inputs)


def test_shuffles_may_be_kept_off_subgroups(device):
    exe = WebGpuTarget(subgroups="off").load(artifact("steps"), WEIGHTS)
    assert exe(row(3), s=np.zeros((3, 6), np.float32))["z"].tolist() == [2, 4, 6]
    with pytest.raises(InputError, match="option subgroups: expected auto, on, off, got 'x'"):
        WebGpuTarget(subgroups="x").load(artifact("steps"), WEIGHTS)


def test_an_artifact_needs_no_device_and_lists_its_kernels():
    found = artifact("steps")
    listed = WebGpuTarget().listings(manager.context(), planned("steps"), found)
    assert sorted(listed) == ["add.wgsl", "double.wgsl", "small.wgsl"]
    assert listed["add.wgsl"].count("var<storage, read>") == 1
    assert "@compute @workgroup_size(64)" in listed["double.wgsl"]
    assert found.facts["kernels"] == 3


@pytest.mark.parametrize(
    ("section", "data"), [("kernels", b"{"), ("kernels", b"[]"), ("plan", b"")]
)
def test_a_broken_artifact_is_refused(section, data):
    found = artifact("steps")
    broken = Artifact("webgpu", found.signature, {**found.sections, section: data}, found.facts)
    with pytest.raises(FormatError):
        WebGpuTarget().load(broken, WEIGHTS)


def test_a_device_lost_in_between_ends_the_call_in_a_sentence_and_a_new_one_works(device):
    target, states = WebGpuTarget(adapter="0"), np.ones((3, 6), np.float32)
    exe = target.load(artifact("steps"), WEIGHTS)
    exe(row(3), s=states.copy())
    exe.device.handle.destroy()
    with pytest.raises(TargetUnavailable, match="was lost, and what was on it: compile the model"):
        exe(row(3), s=states)
    assert (states == 1).all()
    again = target.load(artifact("steps"), WEIGHTS)
    assert again(row(3), s=states)["z"].tolist() == [2, 4, 6]
