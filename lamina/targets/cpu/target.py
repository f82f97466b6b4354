"""The CPU as a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from lamina.targets.base import Artifact, Executable, Target

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

    from lamina.targets.cpu.features import CpuFeatures


@dataclass(frozen=True)
class CpuTarget(Target):
    """Native code, for this machine unless told otherwise, through LLVM.

    `features` is a level of instruction sets, or "auto" for the best that the machine has; code
    for a level of another architecture is emitted, but loads only there.
    `convolutions` is "auto", or "direct" for none by transforms, which round otherwise and in which
    a number that is not finite spreads over a tile of results. `activations` is "auto" (8-bit where
    weights are quantised) or "f32". `kv` is the element type of the pages of keys and values, or
    "auto": f32 where all weights are f32, else f16. `tuned` says that schedules measured on this
    machine (`lamina tune`) are used. `threads` is how many run a step at most: None for as many as
    the process may use, which more would only keep waiting.
    """

    name: ClassVar[str] = "cpu"

    features: str = "auto"
    convolutions: str = "auto"
    activations: str = "auto"
    kv: str = "auto"
    tuned: bool = True
    threads: int | None = field(default=None, metadata={"spec": False})

    @property
    def accepts(self) -> frozenset[str]:
        """What the lowering has rules for, and the operations of a plan."""
        from lamina.targets.cpu.emission import ACCEPTED

        return ACCEPTED

    def passes(self) -> tuple[ModulePass, ...]:
        """Return the passes from an imported module to a planned one."""
        from lamina.targets.cpu.pipeline import CpuWishes, cpu_passes
        from lamina.targets.cpu.schedules import machine_of

        machine = machine_of(self._level())
        wished = CpuWishes(self.activations, self.kv, self.convolutions)
        return cpu_passes(wished, machine, tuned=self.tuned)

    def host(self) -> str:
        """Return what the code may use of the CPU, and which schedules were measured on it."""
        from lamina.targets.cpu.schedules import machine_of, schedules_stamp

        level = self._level()
        return f"{level!r}{machine_of(level)!r}{schedules_stamp(level) if self.tuned else ''}"

    def emit(self, ctx: Context, module: ModuleOp) -> Artifact:
        """Compile a planned module: object code, the plan as tables, `@prepare` as text."""
        from lamina.targets.cpu.emission import emit_artifact

        return emit_artifact(self.name, module, self._level())

    def listings(self, ctx: Context, module: ModuleOp, artifact: Artifact) -> Mapping[str, str]:
        """Return the LLVM IR and the assembly of each kernel."""
        from lamina.targets.cpu.emission import kernel_listings

        return kernel_listings(module, self._level())

    def pack(self, artifact: Artifact, weights: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what `@prepare` makes of the weights."""
        from lamina.targets.plans.loading import pack_weights

        return pack_weights(artifact, weights)

    def load(self, artifact: Artifact, weights: Mapping[str, Any]) -> Executable:
        """Load the code and prepare the weights, or map them if that was done before."""
        from lamina.targets.cpu.loading import load_artifact
        from lamina.targets.cpu.threads import thread_limit

        return load_artifact(artifact, weights, thread_limit(self.threads))

    def _level(self) -> CpuFeatures:
        from lamina.targets.cpu.features import emittable

        return emittable(None if self.features == "auto" else self.features)
