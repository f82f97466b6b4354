"""Whole plans on an imitated device: states, host calls, checks, sizes, and what goes wrong."""

import gc
import sys
from collections.abc import Callable

import numpy as np
import pytest
from metal_plans import WEIGHTS, artifact, load_plan, planned

from lamina.errors import FormatError, InputError, TargetUnavailable
from lamina.plugins import manager
from lamina.targets.base import Artifact
from lamina.targets.metal.device import Device, metal_module, open_device
from lamina.targets.metal.executable import MetalExecutable
from lamina.targets.metal.loading import load_artifact
from lamina.targets.metal.target import MetalTarget
from lamina.targets.reference.target import ReferenceTarget
from lamina.testing.msl.device import Metal


@pytest.fixture
def load(compiler: str) -> Callable[..., MetalExecutable]:
    return load_plan


def row(size: int) -> np.ndarray:
    return np.arange(1, size + 1, dtype=np.float32)


def test_one_compilation_runs_every_size_as_the_reference_does(load):
    target, exe = ReferenceTarget(), load("steps")
    reference = target.load(target.emit(manager.context(), planned("steps")), WEIGHTS)
    for size in (0, 1, 3, 100, 2):
        states = [np.ones((size, 6), np.float32) for _ in range(2)]
        found, right = exe(row(size), s=states[0]), reference(row(size), s=states[1])
        for name, array in right.items():
            np.testing.assert_array_equal(found[name], array)
        np.testing.assert_array_equal(*states)


def test_a_host_call_reads_and_writes_the_device(load):
    ids = np.array([4, 3, 2, 1, 0], np.int32)
    np.testing.assert_array_equal(load("copied")(row(5), ids)["y"], row(5)[::-1] * 4)


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


def test_a_device_that_is_lost_is_said_and_leaves_states_as_they_were(load):
    metal, state = Metal(), np.ones((3, 6), np.float32)
    exe = load("steps", metal)
    metal.MTLCreateSystemDefaultDevice().lose("it was unplugged")
    with pytest.raises(TargetUnavailable, match="is lost: it was unplugged; compile the model"):
        exe(row(3), s=state)
    assert (state == 1).all()


def test_memory_goes_back_with_what_needed_it(load):
    metal = Metal()
    handle = metal.MTLCreateSystemDefaultDevice()
    exe = load("steps", metal)
    exe(row(100), s=np.ones((100, 6), np.float32))
    assert handle.currentAllocatedSize() > 4000
    del exe
    gc.collect()
    assert handle.currentAllocatedSize() == 0


def test_memory_that_is_missing_is_said_in_bytes(load):
    exe = load("checked", Metal(memory=8192))
    with pytest.raises(InputError, match=r"needs 40000 bytes in one buffer.*31808 bytes are mis"):
        exe(row(10000))
    with pytest.raises(InputError, match=r"no memory for \d+ bytes more: \d+ bytes are missing"):
        exe(row(1800))
    np.testing.assert_array_equal(exe(row(4))["y"], 2 * row(4))


def test_a_machine_without_metal_says_so():
    with pytest.raises(TargetUnavailable, match="metal finds no device on this machine"):
        Device(Metal(devices=0))
    with pytest.raises(TargetUnavailable, match="no device '3': expected auto or a number of the"):
        Device(Metal(), "3")


@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac has it")
def test_another_system_says_that_metal_needs_a_mac():
    with pytest.raises(TargetUnavailable, match="metal runs on macOS only, and this machine has"):
        metal_module()
    with pytest.raises(TargetUnavailable, match="metal runs on macOS only"):
        open_device("auto")


def test_a_text_that_does_not_compile_is_refused_with_what_is_wrong(compiler):
    with pytest.raises(TargetUnavailable, match=r"refuses the kernels: .*'nothing' was"):
        Device(Metal()).pipelines("#include <metal_stdlib>\nkernel void f() { nothing; }", ["f"])


def test_an_artifact_needs_no_device_and_lists_its_kernels():
    found = artifact("steps")
    listed = MetalTarget().listings(manager.context(), planned("steps"), found)
    assert sorted(listed) == ["add.metal", "double.metal", "small.metal"]
    assert "[[max_total_threads_per_threadgroup(64)]]" in listed["double.metal"]
    assert found.facts["kernels"] == 3


@pytest.mark.parametrize(
    ("section", "data"), [("kernels", b"{"), ("kernels", b"[]"), ("plan", b"")]
)
def test_a_broken_artifact_is_refused(section, data):
    found = artifact("steps")
    broken = Artifact("metal", found.signature, {**found.sections, section: data}, found.facts)
    with pytest.raises(FormatError):
        load_artifact(broken, WEIGHTS, Device(Metal()))
