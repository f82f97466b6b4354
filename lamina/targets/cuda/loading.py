"""An artifact to something that can be called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lamina.errors import FormatError
from lamina.targets.base import Artifact
from lamina.targets.cuda.compiled_kernels import Code, KernelFacts, load_kernels
from lamina.targets.cuda.device import CudaDevice
from lamina.targets.cuda.executable import CudaExecutable
from lamina.targets.cuda.sections import CUBIN, KERNELS, PTX
from lamina.targets.packing.packed_weights import packed_weights
from lamina.targets.plans.emission import kernels_from_bytes
from lamina.targets.plans.host_calls import host_functions
from lamina.targets.plans.loading import check_sections
from lamina.targets.plans.plan_tables import Plan
from lamina.targets.plans.sections import HOSTS, PLAN, PREPARE


def load_artifact(
    artifact: Artifact, weights: Mapping[str, Any], device: CudaDevice
) -> CudaExecutable:
    """Load the code on a device and bring the weights there.

    Raises TargetUnavailable where the code is not for this device, FormatError for an artifact
    that is not whole, and InputError for a weight that is missing or too little memory.
    """
    sections = artifact.sections
    check_sections(artifact, {PTX, KERNELS, PLAN, PREPARE, HOSTS})
    plan = Plan.from_bytes(sections[PLAN])
    known = {each.name: each for each in kernels_from_bytes(sections[KERNELS], KernelFacts)}
    if missing := [name for name in plan.kernels if name not in known]:
        raise FormatError(f"the artifact has no kernel {missing[0]!r}")
    arch = artifact.facts.get("arch")
    if not isinstance(arch, str):
        raise FormatError("the artifact does not say its arch")
    code = Code(sections[PTX], arch, sections.get(CUBIN, b""))
    with device.lock:
        loaded = load_kernels(device, code, [known[name] for name in plan.kernels])
    packed = packed_weights(plan.packed, sections[PREPARE], weights)
    hosts = host_functions(plan, sections[HOSTS])
    return CudaExecutable(artifact.signature, plan, device, loaded, packed, hosts)
