"""An artifact to something that can be called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lamina.errors import FormatError, TargetUnavailable
from lamina.targets.base import Artifact
from lamina.targets.packing.packed_weights import packed_weights
from lamina.targets.plans.host_calls import host_functions
from lamina.targets.plans.loading import check_sections
from lamina.targets.plans.plan_tables import Plan
from lamina.targets.plans.sections import HOSTS, PLAN, PREPARE
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
    sections = artifact.sections
    check_sections(artifact, {KERNELS, PLAN, PREPARE, HOSTS})
    plan = Plan.from_bytes(sections[PLAN])
    texts = {text.name: text for text in kernels_of(sections[KERNELS])}
    if missing := [name for name in plan.kernels if name not in texts]:
        raise FormatError(f"the artifact has no kernel {missing[0]!r}")
    if subgroups == "on" and not device.subgroup:
        raise TargetUnavailable(f"{device.name} has no subgroups")
    ordered = [texts[name] for name in plan.kernels]
    kernels = compile_kernels(device, ordered, subgroups=subgroups != "off")
    packed = packed_weights(plan.packed, sections[PREPARE], weights)
    hosts = host_functions(plan, sections[HOSTS])
    return WebGpuExecutable(artifact.signature, plan, device, kernels, packed, hosts)
