"""CUDA as a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from lamina.targets.base import Artifact, Executable
from lamina.targets.devices.target import DeviceTarget

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

    from lamina.targets.cuda.device import CudaDevice


@dataclass(frozen=True)
class CudaTarget(DeviceTarget):
    """Kernels in PTX, on NVIDIA's GPUs.

    `arch` is the architecture that PTX is made for: it runs there and on all later ones, but what
    ends in `a` runs on that one alone. `kv` is the element type of the pages of keys and values,
    f32 or f16. `device` is the number of a device. `fallback` says whether what has no kernel runs
    on the "host", or is an "error". With `tf32`, f32 are multiplied by matrix units, which take 10
    bits of their fraction. `activations` is "f32", or "auto": 8-bit where weights are quantised.
    """

    name: ClassVar[str] = "cuda"

    arch: str = "sm_80"
    kv: str = "f32"
    device: int = field(default=0, metadata={"spec": False})
    fallback: str = "host"
    tf32: bool = False
    activations: str = "f32"

    @property
    def accepts(self) -> frozenset[str]:
        """What can be printed, and the operations of a plan."""
        from lamina.targets.cuda.emission import ACCEPTED

        return ACCEPTED

    def passes(self) -> tuple[ModulePass, ...]:
        """Return the passes from an imported module to kernels of one thread."""
        from lamina.targets.cuda.pipeline import cuda_passes

        return cuda_passes(
            self.kv, self.arch, self.fallback, tf32=self.tf32, activations=self.activations
        )

    def host(self) -> str:
        """Return what of this machine the code depends on: the linker of machine code."""
        from lamina.targets.cuda.cubins import linker_version

        return f"any, nvjitlink {linker_version() or 'none'}"

    def emit(self, ctx: Context, module: ModuleOp) -> Artifact:
        """Compile a planned module: PTX, the plan as tables, `@prepare` as text."""
        from lamina.targets.cuda.emission import emit_artifact

        return emit_artifact(self.name, module, self.arch)

    def listings(self, ctx: Context, module: ModuleOp, artifact: Artifact) -> Mapping[str, str]:
        """Return the LLVM IR and the PTX of each kernel."""
        from lamina.targets.cuda.emission import listings

        return listings(module, artifact)

    def load(self, artifact: Artifact, weights: Mapping[str, Any]) -> Executable:
        """Load the code on the device and bring the weights there."""
        from lamina.targets.cuda.loading import load_artifact

        return load_artifact(artifact, weights, self.open())

    def open(self) -> CudaDevice:
        """Return the device; TargetUnavailable where there is no driver, or no such device."""
        from lamina.targets.cuda.device import open_device

        return open_device(self.device)
