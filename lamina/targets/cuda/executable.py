"""Loaded CUDA code: a device's kernels and weights, and calls of them."""

from __future__ import annotations

from lamina.targets.cuda.compiled_kernels import LoadedKernels
from lamina.targets.cuda.device import CudaBuffer, CudaDevice
from lamina.targets.cuda.session import CudaSession
from lamina.targets.devices.executable import DeviceExecutable


class CudaExecutable(DeviceExecutable[CudaDevice, CudaBuffer, LoadedKernels]):
    """Kernels and weights on a device: threads may share it, a call has memory of its own."""

    def _new_session(self) -> CudaSession:
        return CudaSession(self)
