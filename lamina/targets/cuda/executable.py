"""Loaded CUDA code: a device's kernels and weights, and calls of them."""

from __future__ import annotations

from collections.abc import Sequence

from lamina.targets.base import Array, Signature
from lamina.targets.cuda.compiled_kernels import LoadedKernels
from lamina.targets.cuda.device import CudaBuffer, CudaDevice
from lamina.targets.cuda.session import CudaSession
from lamina.targets.devices.executable import DeviceExecutable
from lamina.targets.plans.host_calls import HostFunction
from lamina.targets.plans.plan_tables import Plan


class CudaExecutable(DeviceExecutable[CudaBuffer]):
    """Kernels and weights on a device: threads may share it, a call has memory of its own."""

    def __init__(
        self,
        signature: Signature,
        plan: Plan,
        device: CudaDevice,
        loaded: LoadedKernels,
        packed: Sequence[Array],
        hosts: Sequence[HostFunction] = (),
    ) -> None:
        """Bring the arrays of `plan.packed` to the device; InputError if it has no room."""
        self.device = device
        self.loaded = loaded
        with device.lock:
            device.check_room("the weights", sum(array.nbytes for array in packed))
        super().__init__(signature, plan, device, packed, hosts)

    def _new_session(self) -> CudaSession:
        return CudaSession(self)
