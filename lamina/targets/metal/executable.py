"""Loaded Metal kernels: a device's pipelines and weights, and calls of them."""

from __future__ import annotations

from collections.abc import Sequence

from lamina.targets.devices.executable import DeviceExecutable
from lamina.targets.metal.compiled_kernels import CompiledKernel
from lamina.targets.metal.device import Buffer, Device
from lamina.targets.metal.session import MetalSession


class MetalExecutable(DeviceExecutable[Device, Buffer, Sequence[CompiledKernel]]):
    """Kernels and weights on a device: threads may share it, a call has memory of its own."""

    def _new_session(self) -> MetalSession:
        return MetalSession(self)
