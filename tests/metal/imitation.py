"""The Metal target on an imitated device, whose kernels run on this machine's CPU."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from lamina.targets.base import Artifact
from lamina.targets.metal.device import Device
from lamina.targets.metal.executable import MetalExecutable
from lamina.targets.metal.loading import load_artifact
from lamina.targets.metal.target import MetalTarget
from lamina.testing.msl.device import Metal


@dataclass(frozen=True)
class ImitatedTarget(MetalTarget):
    """`MetalTarget`, but for the device that it opens; `loaded` are the artifacts that it had."""

    module: ClassVar[Any] = Metal()
    loaded: list[Artifact] = field(default_factory=list, compare=False, metadata={"spec": False})

    def load(self, artifact: Artifact, weights: Mapping[str, Any]) -> MetalExecutable:
        self.loaded.append(artifact)
        return load_artifact(artifact, weights, Device(self.module))
