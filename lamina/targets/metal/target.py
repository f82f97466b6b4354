"""Metal as a target."""

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


@dataclass(frozen=True)
class MetalTarget(DeviceTarget):
    """Kernels in the Metal Shading Language, run by the GPU of a Mac.

    `kv` is the element type of the pages of keys and values, f32 or f16. `device` is the number
    of a device, or "auto" for the system's own choice. `fallback` says whether what has no kernel
    runs on the "host", or is an "error".
    """

    name: ClassVar[str] = "metal"

    kv: str = "f32"
    device: str = field(default="auto", metadata={"spec": False})
    fallback: str = "host"

    @property
    def accepts(self) -> frozenset[str]:
        """What can be printed, and the operations of a plan."""
        from lamina.targets.metal.emission import ACCEPTED

        return ACCEPTED

    def passes(self) -> tuple[ModulePass, ...]:
        """Return the passes from an imported module to kernels of one thread."""
        from lamina.targets.metal.pipeline import metal_passes

        return metal_passes(self.kv, self.fallback)

    def emit(self, ctx: Context, module: ModuleOp) -> Artifact:
        """Print a planned module: kernels, the plan as tables, `@prepare` as text."""
        from lamina.targets.metal.emission import emit_artifact

        return emit_artifact(self.name, module)

    def listings(self, ctx: Context, module: ModuleOp, artifact: Artifact) -> Mapping[str, str]:
        """Return the text of each kernel."""
        from lamina.targets.metal.emission import listings

        return listings(artifact)

    def load(self, artifact: Artifact, weights: Mapping[str, Any]) -> Executable:
        """Compile the kernels on the device and bring the weights there."""
        from lamina.targets.metal.device import open_device
        from lamina.targets.metal.loading import load_artifact

        return load_artifact(artifact, weights, open_device(self.device))
