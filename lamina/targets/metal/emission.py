"""A planned module to an artifact: kernels as text, the plan's tables, what is left for loading."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from xdsl.dialects.builtin import ModuleOp

from lamina.targets.base import Artifact
from lamina.targets.metal.msl import ACCEPTS, KernelText, emit_kernel, library_text
from lamina.targets.metal.sections import KERNELS
from lamina.targets.plans.emission import (
    artifact_of,
    emit_each,
    kernels_from_bytes,
    kernels_to_bytes,
)
from lamina.targets.plans.plan_encoding import DEVICE_PLAN_OPS, encode_plan
from lamina.targets.shading.printer import NodeTable

ACCEPTED: Final = ACCEPTS | DEVICE_PLAN_OPS | {"builtin.module", "func.func"}
"""The operations that can be emitted."""


def emit_artifact(name: str, module: ModuleOp) -> Artifact:
    """Print the kernels of a planned module and encode its plan."""
    nodes = NodeTable()
    plan = encode_plan(module, 0, ())
    kernels = emit_each(module, lambda kernel: emit_kernel(kernel, nodes))
    plan = replace(plan, nodes=tuple(nodes.names))
    return artifact_of(name, module, plan, {KERNELS: kernels_to_bytes(kernels)}, {})


def kernels_of(artifact: Artifact) -> list[KernelText]:
    """Return the kernels of an artifact; FormatError if they cannot be read."""
    return kernels_from_bytes(artifact.sections[KERNELS], KernelText)


def listings(artifact: Artifact) -> Mapping[str, str]:
    """Return the text of each kernel, with the functions that it calls, by file name."""
    return {f"{kernel.name}.metal": library_text([kernel]) for kernel in kernels_of(artifact)}
