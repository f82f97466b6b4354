"""WebGPU as a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final

from lamina.errors import InputError
from lamina.targets.base import Artifact, Executable
from lamina.targets.devices.target import DeviceTarget

if TYPE_CHECKING:
    from xdsl.context import Context
    from xdsl.dialects.builtin import ModuleOp
    from xdsl.passes import ModulePass

    from lamina.targets.webgpu.device import Device

SUBGROUPS: Final = ("auto", "on", "off")

LEAST: Final = 1024
"""The fewest bytes that a binding or a buffer may be limited to."""


@dataclass(frozen=True)
class WebGpuTarget(DeviceTarget):
    """Kernels in WGSL, on any adapter that wgpu finds, a processor without a GPU among them.

    `kv` is the element type of the pages of keys and values, f32 or f16. `adapter` is the number
    of an adapter, or "auto" for the one that is likely the fastest. `subgroups` says whether
    threads exchange values as subgroups: "auto" where the adapter's are large enough, "off" for
    by way of workgroup memory always. An array that is larger than a binding or a buffer can be
    takes several: `bytes_bound` and `bytes_held` are the most that each is to have, 0 for as many
    as the adapter allows. `fallback` says whether what has no kernel runs on the "host", or is an
    "error".
    """

    name: ClassVar[str] = "webgpu"

    kv: str = "f32"
    adapter: str = field(default="auto", metadata={"spec": False})
    subgroups: str = field(default="auto", metadata={"spec": False})
    bytes_bound: int = field(default=0, metadata={"spec": False})
    bytes_held: int = field(default=0, metadata={"spec": False})
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

    def emit(self, ctx: Context, module: ModuleOp) -> Artifact:
        """Print a planned module: WGSL, the plan as tables, `@prepare` as text."""
        from lamina.targets.webgpu.emission import emit_artifact

        return emit_artifact(self.name, module)

    def listings(self, ctx: Context, module: ModuleOp, artifact: Artifact) -> Mapping[str, str]:
        """Return the WGSL of each kernel."""
        from lamina.targets.webgpu.emission import listings

        return listings(artifact)

    def load(self, artifact: Artifact, weights: Mapping[str, Any]) -> Executable:
        """Compile the kernels on the adapter and bring the weights there."""
        from lamina.targets.webgpu.loading import load_artifact

        self._check()
        return load_artifact(artifact, weights, self.open(), self.subgroups)

    def _check(self) -> None:
        known, sizes = ", ".join(SUBGROUPS), f"0 or at least {LEAST}"
        for option, fits, expected in (
            ("subgroups", self.subgroups in SUBGROUPS, known),
            ("bytes_bound", not self.bytes_bound or self.bytes_bound >= LEAST, sizes),
            ("bytes_held", not self.bytes_held or self.bytes_held >= LEAST, sizes),
        ):
            if not fits:
                got = getattr(self, option)
                raise InputError(
                    f"the target webgpu, option {option}: expected {expected}, got {got!r}"
                )

    def open(self) -> Device:
        """Return the device; TargetUnavailable where there is none, or no such adapter."""
        from lamina.targets.webgpu.device import open_device

        return open_device(self.adapter, self.bytes_bound, self.bytes_held)
