"""An artifact to something that can be called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lamina.errors import FormatError
from lamina.targets.base import Artifact
from lamina.targets.metal.compiled_kernels import compile_kernels
from lamina.targets.metal.device import Device
from lamina.targets.metal.emission import kernels_of
from lamina.targets.metal.executable import MetalExecutable
from lamina.targets.metal.sections import KERNELS
from lamina.targets.packing.packed_weights import packed_weights
from lamina.targets.plans.host_calls import host_functions
from lamina.targets.plans.loading import check_sections
from lamina.targets.plans.plan_tables import Plan
from lamina.targets.plans.sections import HOSTS, PLAN, PREPARE


def load_artifact(
    artifact: Artifact, weights: Mapping[str, Any], device: Device
) -> MetalExecutable:
    """Compile the kernels on a device and bring the weights there.

    Raises TargetUnavailable where the device lacks what the code needs, FormatError for an
    artifact that is not whole, and InputError for a weight that is missing.
    """
    sections = artifact.sections
    check_sections(artifact, {KERNELS, PLAN, PREPARE, HOSTS})
    plan = Plan.from_bytes(sections[PLAN])
    texts = {text.name: text for text in kernels_of(artifact)}
    if missing := [name for name in plan.kernels if name not in texts]:
        raise FormatError(f"the artifact has no kernel {missing[0]!r}")
    kernels = compile_kernels(device, [texts[name] for name in plan.kernels])
    packed = packed_weights(plan.packed, sections[PREPARE], weights)
    hosts = host_functions(plan, sections[HOSTS])
    return MetalExecutable(artifact.signature, plan, device, kernels, packed, hosts)
