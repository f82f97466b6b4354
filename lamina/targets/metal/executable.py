"""Loaded Metal kernels: a device's pipelines and weights, and calls of them."""

from __future__ import annotations

from collections.abc import Sequence

from lamina.targets.base import Array, Signature
from lamina.targets.devices.executable import DeviceExecutable
from lamina.targets.metal.compiled_kernels import CompiledKernel
from lamina.targets.metal.device import Buffer, Device
from lamina.targets.metal.session import MetalSession
from lamina.targets.plans.host_calls import HostFunction
from lamina.targets.plans.plan_tables import Plan


class MetalExecutable(DeviceExecutable[Buffer]):
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

    def _new_session(self) -> MetalSession:
        return MetalSession(self)
