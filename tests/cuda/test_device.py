import re
from collections.abc import Callable
from threading import Thread
from typing import Any

import numpy as np
import pytest

from lamina.errors import InputError, TargetUnavailable
from lamina.targets.base import Artifact
from lamina.targets.cuda import device as devices
from lamina.targets.cuda.device import CudaDevice, open_device
from lamina.targets.cuda.driver import load_driver
from lamina.targets.cuda.executable import CudaExecutable
from lamina.targets.cuda.graphs import Graph
from lamina.targets.cuda.loading import load_artifact
from lamina.testing.ptx import Specification
from lamina.testing.ptx.driver import CUresult, FakeDriver

Load = Callable[[str], CudaExecutable]
X = np.ones(9, np.float32)


def driverless() -> bool:
    try:
        load_driver()
    except TargetUnavailable as error:
        return "no NVIDIA driver" in str(error)
    return False


@pytest.mark.skipif(not driverless(), reason="there is a driver")
def test_without_a_driver_that_is_said_and_said_again() -> None:
    for _ in range(2):
        with pytest.raises(TargetUnavailable, match="cuda finds no NVIDIA driver here: there is"):
            open_device(0)


def test_a_number_of_no_device_is_answered_with_those_there_are() -> None:
    driver = FakeDriver([Specification(name="One"), Specification(name="Two")])
    assert CudaDevice(driver, 1).name == "Two (cuda device 1)"
    for number in (2, -1):
        with pytest.raises(TargetUnavailable, match=rf"no device {number}: .*\(0: One; 1: Two\)"):
            CudaDevice(driver, number)


def test_a_driver_without_devices_is_no_device() -> None:
    with pytest.raises(TargetUnavailable, match=r"finds no device: .* CUDA_ERROR_NO_DEVICE"):
        CudaDevice(FakeDriver([]), 0)


def test_a_device_that_others_keep_for_themselves_cannot_be_opened() -> None:
    driver = FakeDriver()
    driver.fail(CUresult.CUDA_ERROR_DEVICE_UNAVAILABLE, "cuDevicePrimaryCtxRetain")
    with pytest.raises(TargetUnavailable, match=r"cannot be opened: .*DEVICE_UNAVAILABLE"):
        CudaDevice(driver, 0)
    assert CudaDevice(driver, 0).name == "PTX interpreter (cuda device 0)"


@pytest.mark.parametrize("call", ["cuStreamCreate", "cuMemHostAlloc", "cuEventCreate"])
@pytest.mark.parametrize("result", ["CUDA_ERROR_OUT_OF_MEMORY", "CUDA_ERROR_LAUNCH_FAILED"])
def test_a_device_that_is_not_opened_whole_leaves_nothing_behind(call: str, result: str) -> None:
    driver = FakeDriver()
    driver.fail(CUresult[result], call, after=1)
    with pytest.raises((InputError, TargetUnavailable), match=r"memory|lost"):
        CudaDevice(driver, 0)
    assert driver.leaks() == []


def test_weights_that_have_no_room_are_refused_before_any_is_sent(
    artifact: Callable[[str], Artifact],
) -> None:
    device = CudaDevice(driver := FakeDriver([Specification(memory=1000)]), 0)
    free = driver.cuMemGetInfo()[1]
    with pytest.raises(InputError, match=rf"the weights: .* {4000 - free} bytes are missing"):
        load_artifact(artifact("steps"), {"w": np.ones(1000, np.float32)}, device)
    assert driver.counts["cuMemAllocAsync"] == 0


def test_a_call_that_has_no_room_says_what_is_missing_and_the_next_one_runs(
    artifact: Callable[[str], Artifact],
) -> None:
    device = CudaDevice(FakeDriver([Specification(memory=1 << 20)]), 0)
    exe = load_artifact(artifact("checked"), {}, device)
    with pytest.raises(InputError, match=r"no memory: .* are needed: \d+ bytes are missing"):
        exe(np.ones(200_000, np.float32))
    assert np.array_equal(exe(X)["y"], 2 * X)


def test_code_for_a_newer_device_is_refused_with_the_arch_to_ask_for(
    artifact: Callable[[str], Artifact],
) -> None:
    device = CudaDevice(FakeDriver([Specification((7, 5), name="Old")]), 0)
    with pytest.raises(TargetUnavailable, match=r"for sm_80, Old .* is sm_75: .* arch=sm_75"):
        load_artifact(artifact("checked"), {}, device)


LOST = r"\(cuda device 0\) was lost \(CUDA_ERROR_LAUNCH_FAILED\), and what was on it: compile the"


def test_a_device_that_is_lost_between_two_calls_closes_the_executable(
    load: Load, driver: FakeDriver
) -> None:
    exe = load("checked")
    exe(X)
    driver.lose()
    for _ in range(3):
        with pytest.raises(TargetUnavailable, match=LOST):
            exe(X)
    assert driver.leaks() == [], "what was on it is given back at once"


@pytest.mark.parametrize("after", range(1, 16))
def test_a_device_may_be_lost_at_any_call_of_a_step(
    load: Load, driver: FakeDriver, after: int
) -> None:
    exe, state = load("steps"), np.ones((9, 6), np.float32)
    exe(X, s=state)
    driver.lose(after=after)
    with pytest.raises(TargetUnavailable, match=LOST):
        exe(X, s=state)
    assert driver.leaks() == []


def test_states_of_a_lost_device_stay_as_they_were(load: Load, driver: FakeDriver) -> None:
    exe, state = load("steps"), np.ones((9, 6), np.float32)
    driver.lose(after=12)
    with pytest.raises(TargetUnavailable, match=LOST):
        exe(X, s=state)
    assert (state == 1).all()


def test_a_refusal_that_harms_nothing_leaves_the_device_usable(
    load: Load, driver: FakeDriver
) -> None:
    exe = load("checked")
    driver.fail(CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "cuLaunchKernel")
    with pytest.raises(TargetUnavailable, match="refuses: cuLaunchKernel: CUDA_ERROR_LAUNCH_OUT"):
        exe(X)
    assert np.array_equal(exe(X)["y"], 2 * X)


@pytest.mark.parametrize("after", range(4))
@pytest.mark.parametrize("call", ["cuLaunchKernel", "cuStreamWaitEvent"])
def test_a_capture_that_breaks_off_leaves_the_device_usable(
    load: Load, driver: FakeDriver, call: str, after: int
) -> None:
    exe, state = load("steps"), np.ones((9, 6), np.float32)
    exe(X, s=state)
    driver.fail(CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, call, after=after)
    with pytest.raises(TargetUnavailable, match="refuses"):
        exe(X, s=state)
    for _ in range(3):
        assert np.array_equal(exe(X, s=state)["z"], 2 * X)


def test_a_closed_device_says_so(load: Load, device: CudaDevice) -> None:
    exe = load("checked")
    device.close()
    with pytest.raises(TargetUnavailable, match="was closed: compile the model again"):
        exe(X)


def test_a_lost_device_is_opened_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "load_driver", FakeDriver)
    monkeypatch.setattr(devices, "_OPEN", {})
    first = open_device(0)
    assert open_device(0) is first
    first.close()
    assert open_device(0) is not first


def test_what_nobody_has_any_more_is_given_back(load: Load, device: CudaDevice) -> None:
    free = device.call("cuMemGetInfo")[0]
    exe = load("steps")
    exe(X, s=np.ones((9, 6), np.float32))
    exe(X, s=np.ones((9, 6), np.float32))
    assert device.call("cuMemGetInfo")[0] < free
    del exe
    device.wait()
    assert device.call("cuMemGetInfo")[0] == free


def test_what_is_dropped_during_a_capture_is_no_part_of_the_graph(
    device: CudaDevice, driver: FakeDriver
) -> None:
    buffer = [device.storage(256)]
    target = device.storage(256)

    def give() -> None:
        buffer.clear()
        device.call("cuMemsetD32Async", target.address, 7, 64, device.stream)

    graph = Graph(device, give)
    assert driver.counts["cuMemFreeAsync"] == 0
    with device.lock:
        graph.give()
    assert driver.counts["cuMemFreeAsync"] == 1
    assert (device.read(target, 0, 256).view(np.uint32) == 7).all()


def test_two_devices_work_in_one_thread() -> None:
    driver = FakeDriver([Specification(), Specification()])
    first, second = CudaDevice(driver, 0), CudaDevice(driver, 1)
    buffers, data = [second.storage(8)], np.arange(8, dtype=np.uint8)
    with first:
        buffer = first.storage(8)
        buffers.clear()
        first.write(buffer, data)
        assert np.array_equal(first.read(buffer, 0, 8), data)
    with second:
        second.wait()
    assert driver.leaks()[0] == "1 allocations of device 0"


def test_a_thread_that_drops_a_buffer_waits_for_nobody(device: CudaDevice) -> None:
    buffers = [device.storage(256)]
    thread = Thread(target=buffers.clear)
    with device.lock:
        thread.start()
        thread.join(5)
        assert not thread.is_alive()


@pytest.mark.parametrize("size", [0, 1, 3, 1000, (1 << 20) + 1, (16 << 20) + 5])
def test_bytes_come_back_as_they_were_sent(device: CudaDevice, size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    buffer = device.storage(size + 3)
    device.write(buffer, data, 3)
    assert np.array_equal(device.read(buffer, 3, size), data)


def test_an_array_of_any_kind_is_sent_as_its_bytes(device: CudaDevice) -> None:
    data = np.arange(24, dtype=np.float16).reshape(4, 6)[:, ::2]
    buffer = device.storage(24)
    device.write(buffer, data)
    assert device.read(buffer, 0, 24).tobytes() == data.tobytes()


def test_a_device_without_memory_pools_is_as_good() -> None:
    class Plain(FakeDriver):
        def cuDeviceGetAttribute(self, kind: Any, device: Any) -> tuple[Any, ...]:
            pools = "POOLS" in kind.name
            return (
                (CUresult.CUDA_SUCCESS, 0) if pools else super().cuDeviceGetAttribute(kind, device)
            )

    device = CudaDevice(driver := Plain(), 0)
    buffer = device.storage(8)
    device.write(buffer, np.arange(8, dtype=np.uint8))
    assert device.read(buffer, 2, 3).tolist() == [2, 3, 4]
    device.close()
    assert driver.counts["cuMemAllocAsync"] == 0
    assert driver.leaks() == []


def test_memory_that_the_pool_keeps_is_taken_before_any_is_said_to_be_missing(
    device: CudaDevice, driver: FakeDriver
) -> None:
    driver.fail(CUresult.CUDA_ERROR_OUT_OF_MEMORY, "cuMemAllocAsync")
    assert device.storage(256).size == 256
    assert driver.counts["cuMemPoolTrimTo"] == 1
    for _ in range(2):
        driver.fail(CUresult.CUDA_ERROR_OUT_OF_MEMORY, "cuMemAllocAsync")
    with pytest.raises(InputError, match=re.escape("bytes free, but not 256 in one piece")):
        device.storage(256)
