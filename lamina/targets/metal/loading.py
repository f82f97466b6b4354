"""An artifact to something that can be called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lamina.targets.base import Artifact
from lamina.targets.devices.loading import in_order, load_plan, read_plan
from lamina.targets.metal.compiled_kernels import compile_kernels
from lamina.targets.metal.device import Device
from lamina.targets.metal.emission import kernels_of
from lamina.targets.metal.executable import MetalExecutable
from lamina.targets.metal.sections import KERNELS


def load_artifact(
    artifact: Artifact, weights: Mapping[str, Any], device: Device
) -> MetalExecutable:
    """Compile the kernels on a device and bring the weights there.

    Raises TargetUnavailable where the device lacks what the code needs, FormatError for an
    artifact that is not whole, and InputError for a weight that is missing.
    """
    plan = read_plan(artifact, {KERNELS})
    kernels = compile_kernels(device, in_order(plan, kernels_of(artifact)))
    return MetalExecutable(load_plan(artifact, plan, weights), device, kernels)
