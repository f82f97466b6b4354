"""Loaded WGSL: a device's pipelines and weights, and calls of them."""

from __future__ import annotations

from collections.abc import Sequence

from lamina.targets.devices.executable import DeviceExecutable
from lamina.targets.webgpu.compiled_kernels import CompiledKernel
from lamina.targets.webgpu.device import Device
from lamina.targets.webgpu.session import WebGpuSession
from lamina.targets.webgpu.windows import Storage


class WebGpuExecutable(DeviceExecutable[Device, Storage, Sequence[CompiledKernel]]):
    """Kernels and weights on a device: threads may share it, a call has memory of its own."""

    def _new_session(self) -> WebGpuSession:
        return WebGpuSession(self)
