"""A planned module to an artifact: WGSL, the plan's tables, and what is left for loading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from xdsl.dialects.builtin import ModuleOp

from lamina.dialects.simt import KernelOp
from lamina.targets.base import Artifact
from lamina.targets.plans.bases import packed_bases
from lamina.targets.plans.emission import (
    artifact_of,
    emit_each,
    kernels_from_bytes,
    kernels_to_bytes,
)
from lamina.targets.plans.plan_encoding import DEVICE_PLAN_OPS, encode_plan
from lamina.targets.plans.plan_tables import NULL, Plan
from lamina.targets.webgpu.functions import Ability
from lamina.targets.webgpu.printer import NodeTable
from lamina.targets.webgpu.sections import KERNELS
from lamina.targets.webgpu.wgsl import ACCEPTS, WINDOW, KernelText, emit_kernel

ACCEPTED: Final = ACCEPTS | DEVICE_PLAN_OPS | {"builtin.module", "func.func"}
"""The operations that can be emitted."""


def emit_artifact(name: str, module: ModuleOp) -> Artifact:
    """Print the kernels of a planned module and encode its plan."""
    nodes = NodeTable()
    plan = encode_plan(module, 0, ())
    kernels = emit_kernels(module, plan, nodes)
    plan = replace(plan, nodes=tuple(nodes.names))
    return artifact_of(name, module, plan, {KERNELS: kernels_to_bytes(kernels)}, {})


def emit_kernels(module: ModuleOp, plan: Plan, nodes: NodeTable) -> list[KernelText]:
    """Return the kernels of a planned module; LoweringError names the node of one that has none."""
    kernels = [op for op in module.ops if isinstance(op, KernelOp)]
    reads = _reads(kernels, plan)
    return emit_each(module, lambda kernel: emit_kernel(kernel, reads[kernel.sym_name.data], nodes))


def kernels_of(section: bytes) -> list[KernelText]:
    """Return the kernels of a section; FormatError if it has none."""
    return kernels_from_bytes(section, KernelText)


def listings(artifact: Artifact) -> Mapping[str, str]:
    """Return the WGSL of each kernel by file name."""
    kernels = kernels_of(artifact.sections[KERNELS])
    return {
        f"{each.name}.wgsl": each.text(Ability(), each.windows(WINDOW), WINDOW) for each in kernels
    }


def _reads(kernels: Sequence[KernelOp], plan: Plan) -> dict[str, tuple[bool, ...]]:
    """Tell of each memref whether it is only ever a whole packed weight, which nobody writes.

    What lies in a buffer that a kernel writes elsewhere cannot be bound for reading alone.
    """
    packed = packed_bases(plan)
    zeros = {value for number, value in plan.constants if number == 0}
    found = {op.sym_name.data: [a.data == "read" for a in op.access] for op in kernels}
    for kernel, first, count, *_ in plan.calls:
        given = [each for each in plan.arguments[first : first + count] if each[0] != NULL]
        known = found[plan.kernels[kernel]]
        for n, (base, offset) in enumerate(given):
            known[n] = known[n] and base in packed and offset in zeros
    return {name: tuple(reads) for name, reads in found.items()}
