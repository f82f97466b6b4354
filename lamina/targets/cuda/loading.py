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
from lamina.targets.devices.loading import in_order, load_plan, read_plan
from lamina.targets.plans.emission import kernels_from_bytes


def load_artifact(
    artifact: Artifact, weights: Mapping[str, Any], device: CudaDevice
) -> CudaExecutable:
    """Load the code on a device and bring the weights there.

    Raises TargetUnavailable where the code is not for this device, FormatError for an artifact
    that is not whole, and InputError for a weight that is missing or too little memory.
    """
    sections = artifact.sections
    plan = read_plan(artifact, {PTX, KERNELS})
    facts = in_order(plan, kernels_from_bytes(sections[KERNELS], KernelFacts))
    arch = artifact.facts.get("arch")
    if not isinstance(arch, str):
        raise FormatError("the artifact does not say its arch")
    code = Code(sections[PTX], arch, sections.get(CUBIN, b""))
    with device.lock:
        kernels = load_kernels(device, code, facts)
    loaded = load_plan(artifact, plan, weights)
    with device.lock:
        device.check_room("the weights", sum(array.nbytes for array in loaded.packed))
    return CudaExecutable(loaded, device, kernels)
