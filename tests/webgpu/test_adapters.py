"""Adapters that are not there, memory that is not there, and devices that go away."""

import sys

import numpy as np
import pytest

from lamina.errors import InputError, TargetUnavailable
from lamina.targets.webgpu.adapters import find_adapter
from lamina.targets.webgpu.device import Device


def test_without_the_package_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "wgpu", None)
    with pytest.raises(TargetUnavailable, match=r"needs the package wgpu: .*'lamina\[webgpu\]'"):
        find_adapter("auto")


def test_without_a_driver_one_is_named(device, monkeypatch):
    import wgpu

    monkeypatch.setattr(wgpu.gpu, "enumerate_adapters_sync", list)
    with pytest.raises(TargetUnavailable, match=r"install a driver .* mesa-vulkan-drivers"):
        find_adapter("auto")


@pytest.mark.parametrize("which", ["99", "-1", "first", "²"])
def test_an_adapter_that_is_not_there_is_named_with_those_there_are(device, which):
    with pytest.raises(TargetUnavailable, match=f"no adapter '{which}': expected auto or .*0: "):
        find_adapter(which)


def test_an_adapter_is_found_by_its_number(device):
    assert find_adapter("0").summary


def test_a_buffer_that_is_too_large_says_how_much_is_missing(device):
    limit = device.limits["max-buffer-size"]
    size = (limit // 4 + 250) * 4
    with pytest.raises(InputError, match=f"at most {limit}: {size - limit} bytes are missing"):
        device.staging(size)


def test_bytes_are_written_and_read_at_any_place(device):
    buffer = device.storage(10)
    device.write(buffer, np.arange(10, dtype=np.uint8))
    device.write(buffer, np.array([77, 78], np.uint8), 5)
    assert device.read(buffer, 4, 3).tolist() == [4, 77, 78]


def test_a_kernel_that_the_device_refuses_says_why(device):
    layout = device.handle.create_bind_group_layout(entries=[])
    with pytest.raises(TargetUnavailable, match=r"refuses: .*nonsense"):
        device.pipeline("nonsense", layout, "k")


def test_a_lost_device_says_so():
    lost = Device(find_adapter("auto"))
    buffer = lost.storage(4)
    lost.handle.destroy()
    with pytest.raises(TargetUnavailable, match="was lost, and what was on it"):
        lost.write(buffer, np.zeros(1, np.uint32))
