"""WebGPU as a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from lamina.errors import InputError
from lamina.targets.base import Artifact, Executable, Target

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

SUBGROUPS: Final = ("auto", "on", "off")


@dataclass(frozen=True)
class WebGpuTarget(Target):
    """Kernels in WGSL, on any adapter that wgpu finds, a processor without a GPU among them.

    `kv` is the element type of the pages of keys and values, f32 or f16. `adapter` is the number
    of an adapter, or "auto" for the one that is likely the fastest. `subgroups` says whether
    threads exchange values as subgroups: "auto" where the adapter's are large enough, "off" for
    by way of workgroup memory always. `fallback` says whether what has no kernel runs on the
    "host", or is an "error".
    """

    name: ClassVar[str] = "webgpu"

    kv: str = "f32"
    adapter: str = field(default="auto", metadata={"spec": False})
    subgroups: str = field(default="auto", metadata={"spec": False})
    fallback: str = "host"

    @property
    def accepts(self) -> frozenset[str]:
        """What can be printed, and the operations of a plan."""
        from lamina.targets.webgpu.emission import ACCEPTED

        return ACCEPTED

    def passes(self) -> tuple[ModulePass, ...]:
        """Return the passes from an imported module to kernels of one thread."""
        from lamina.targets.webgpu.pipeline import webgpu_passes

        return webgpu_passes(self.kv, self.fallback)

    def host(self) -> str:
        """Return that the code depends on nothing of this machine."""
        return "any"

    def emit(self, ctx: Context, module: ModuleOp) -> Artifact:
        """Print a planned module: WGSL, the plan as tables, `@prepare` as text."""
        from lamina.targets.webgpu.emission import emit_artifact

        return emit_artifact(self.name, module)

    def listings(self, ctx: Context, module: ModuleOp, artifact: Artifact) -> Mapping[str, str]:
        """Return the WGSL of each kernel."""
        from lamina.targets.webgpu.emission import listings

        return listings(artifact)

    def pack(self, artifact: Artifact, weights: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what `@prepare` makes of the weights."""
        from lamina.targets.plans.loading import pack_weights

        return pack_weights(artifact, weights)

    def load(self, artifact: Artifact, weights: Mapping[str, Any]) -> Executable:
        """Compile the kernels on the adapter and bring the weights there."""
        from lamina.targets.webgpu.loading import load_artifact

        if self.subgroups not in SUBGROUPS:
            known = ", ".join(SUBGROUPS)
            raise InputError(
                f"the target webgpu, option subgroups: expected {known}, got {self.subgroups!r}"
            )
        return load_artifact(artifact, weights, self.adapter, self.subgroups)
