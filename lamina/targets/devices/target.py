"""What targets of devices have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lamina.targets.base import Artifact, Target


@dataclass(frozen=True)
class DeviceTarget(Target):
    """A target that compiles anywhere, and whose weights are packed before they are brought."""

    def host(self) -> str:
        """Return that the code depends on nothing of this machine."""
        return "any"

    def pack(self, artifact: Artifact, weights: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what `@prepare` makes of the weights."""
        from lamina.targets.plans.loading import pack_weights

        return pack_weights(artifact, weights)
