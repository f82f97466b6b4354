"""What holds of the steps that a device notes, and of its limits, whichever device it is."""

from collections.abc import Callable

import numpy as np

from lamina.measure.device_limits import measure_device_limits
from lamina.measure.kernel_table import step_table
from lamina.targets.base import Target
from lamina.targets.devices.executable import DeviceExecutable
from lamina.targets.timeline import TracedCall, TracedStep, trace

Load = Callable[[str], DeviceExecutable]
SIZE = 5
X = np.arange(1, SIZE + 1, dtype=np.float32)
IDS = np.array([4, 3, 2, 1, 0], np.int32)


def names(step: TracedStep) -> list[tuple[str, str]]:
    """Where things were done, and what, in order."""
    return [
        (step.places[place], step.calls[call].kernel) for place, call in step.events[:, :2].tolist()
    ]


def steps_of(exe: DeviceExecutable, number: int) -> list[TracedStep]:
    """Steps of the plan `steps`, that compute what they compute unnoted."""
    expected = exe(X, s=np.zeros((SIZE, 6), np.float32))
    with trace(exe) as timeline:
        for _ in range(number):
            found = exe(X, s=np.zeros((SIZE, 6), np.float32))
            assert all(np.array_equal(found[name], array) for name, array in expected.items())
    exe(X, s=np.zeros((SIZE, 6), np.float32))
    assert len(timeline.steps) == number
    return timeline.steps


def check_dispatches(load: Load) -> None:
    for step in steps_of(load("steps"), 3):
        kernels = ["double", "small", "double", "double", "add"]
        assert names(step) == [("device", kernel) for kernel in kernels]
        assert (np.diff(step.events[:, 3:].ravel()) >= 0).all()
        assert step.events[0, 2] == 1
        assert step.calls[0] == TracedCall("double", "n=16", 8 * SIZE, None, 0)


def check_host(load: Load) -> None:
    exe = load("copied")
    with trace(exe) as timeline:
        np.testing.assert_array_equal(exe(X, IDS)["y"], X[::-1] * 4)
    (step,) = timeline.steps
    device, host = [("device", "double")], ["(copy to the host)"] * 2
    tasks = [("host", name) for name in (*host, "take", "(copy to the device)")]
    assert names(step) == [*device, *tasks, *device]
    assert (np.diff(step.events[:, 3:].ravel()) >= 0).all()


def check_limits(load: Load, target: Target) -> None:
    exe = load("steps")
    limits = measure_device_limits(exe, target, megabytes=1, blocks=1, rounds=1)
    assert limits.read == limits.copy > 0
    assert limits.float_ops > 0
    assert str(limits).startswith(f"copying {limits.copy / 1e9:.1f} GB/s, f32 ")
    assert str(limits).endswith(f" GFLOP/s on {exe.device.name}")
    table = step_table(steps_of(exe, 2), limits, limits.threads)
    assert {row.kernel for row in table.kernels} == {"double", "small", "add"}
    assert table.waiting == 0
