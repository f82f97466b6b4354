"""An artifact to something that can be called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lamina.errors import TargetUnavailable
from lamina.targets.base import Artifact
from lamina.targets.devices.loading import in_order, load_plan, read_plan
from lamina.targets.webgpu.compiled_kernels import compile_kernels
from lamina.targets.webgpu.device import Device
from lamina.targets.webgpu.emission import kernels_of
from lamina.targets.webgpu.executable import WebGpuExecutable
from lamina.targets.webgpu.sections import KERNELS


def load_artifact(
    artifact: Artifact, weights: Mapping[str, Any], device: Device, subgroups: str
) -> WebGpuExecutable:
    """Compile the kernels on a device and bring the weights there.

    Raises TargetUnavailable where the device lacks what the code needs, FormatError for an
    artifact that is not whole, and InputError for a weight that is missing.
    """
    plan = read_plan(artifact, {KERNELS})
    texts = in_order(plan, kernels_of(artifact.sections[KERNELS]))
    if subgroups == "on" and not device.subgroup:
        raise TargetUnavailable(f"{device.name} has no subgroups")
    kernels = compile_kernels(device, texts, subgroups=subgroups != "off")
    return WebGpuExecutable(load_plan(artifact, plan, weights), device, kernels)
