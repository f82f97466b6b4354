"""Loaded WGSL: a device's pipelines and weights, and calls of them."""

from __future__ import annotations

from collections.abc import Sequence

from lamina.targets.base import Array, Signature
from lamina.targets.devices.executable import DeviceExecutable
from lamina.targets.plans.host_calls import HostFunction
from lamina.targets.plans.plan_tables import Plan
from lamina.targets.webgpu.compiled_kernels import CompiledKernel
from lamina.targets.webgpu.device import Device
from lamina.targets.webgpu.session import WebGpuSession
from lamina.targets.webgpu.windows import Storage


class WebGpuExecutable(DeviceExecutable[Storage]):
    """Kernels and weights on a device: threads may share it, a call has memory of its own."""

    def __init__(
        self,
        signature: Signature,
        plan: Plan,
        device: Device,
        kernels: Sequence[CompiledKernel],
        packed: Sequence[Array],
        hosts: Sequence[HostFunction] = (),
    ) -> None:
        """Bring the arrays of `plan.packed` to the device."""
        super().__init__(signature, plan, device, packed, hosts)
        self.device = device
        self.kernels = tuple(kernels)

    def _new_session(self) -> WebGpuSession:
        return WebGpuSession(self)
