"""A planned module to an artifact: WGSL, the plan's tables, and what is left for loading."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final, cast

from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr

import lamina
from lamina.dialects.plan import CallOp
from lamina.dialects.simt import KernelOp
from lamina.errors import FormatError, LoweringError
from lamina.targets.base import Artifact
from lamina.targets.module_text import part_of
from lamina.targets.plans.plan_encoding import PLAN_OPS, encode_plan
from lamina.targets.plans.plan_tables import FIRST_ARRAY, NULL, Plan
from lamina.targets.plans.sections import HOSTS, PLAN, PREPARE
from lamina.targets.signature import signature_of
from lamina.targets.webgpu.functions import Ability
from lamina.targets.webgpu.printer import NodeTable
from lamina.targets.webgpu.sections import KERNELS
from lamina.targets.webgpu.wgsl import ACCEPTS, KernelText, emit_kernel

ACCEPTED: Final = ACCEPTS | PLAN_OPS | {"builtin.module", "func.func"}
"""The operations that can be emitted."""


def emit_artifact(name: str, module: ModuleOp) -> Artifact:
    """Print the kernels of a planned module and encode its plan."""
    nodes = NodeTable()
    plan = encode_plan(module, 0, ())
    kernels = emit_kernels(module, plan, nodes)
    plan = replace(plan, nodes=tuple(nodes.names))
    sections = {
        KERNELS: json.dumps([asdict(kernel) for kernel in kernels]).encode(),
        PLAN: plan.to_bytes(),
        PREPARE: part_of(module, frozenset({PREPARE})),
        HOSTS: part_of(module, frozenset(host.name for host in plan.hosts)),
    }
    facts = {
        "lamina": lamina.__version__,
        "kernels": len(kernels),
        "launches": plan.launches,
        "host_calls": [host.name for host in plan.hosts],
    }
    return Artifact(name, signature_of(module), sections, facts)


def emit_kernels(module: ModuleOp, plan: Plan, nodes: NodeTable) -> list[KernelText]:
    """Return the kernels of a planned module; LoweringError names the node of one that has none."""
    kernels = [op for op in module.ops if isinstance(op, KernelOp)]
    reads = _reads(kernels, plan)
    texts: list[KernelText] = []
    for kernel in kernels:
        try:
            texts.append(emit_kernel(kernel, reads[kernel.sym_name.data], nodes))
        except LoweringError as error:
            raise LoweringError(f"{error}{_origin(module, kernel)}") from None
    return texts


def kernels_of(section: bytes) -> list[KernelText]:
    """Return the kernels of a section; FormatError if it has none."""
    try:
        entries = cast("list[dict[str, Any]]", json.loads(section))
        return [KernelText(**_with_tuples(entry)) for entry in entries]
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(f"the artifact's kernels cannot be read: {error!r}") from None


def _with_tuples(entry: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(cast("list[Any]", v)) if isinstance(v, list) else v for k, v in entry.items()}


def listings(artifact: Artifact) -> Mapping[str, str]:
    """Return the WGSL of each kernel by file name."""
    kernels = kernels_of(artifact.sections[KERNELS])
    return {f"{kernel.name}.wgsl": kernel.text(Ability()) for kernel in kernels}


def _reads(kernels: Sequence[KernelOp], plan: Plan) -> dict[str, tuple[bool, ...]]:
    """Tell of each memref whether it is only ever a packed weight: nothing of that is written.

    What lies in a buffer that a kernel writes elsewhere cannot be bound for reading alone.
    """
    last = FIRST_ARRAY + plan.arrays - len(plan.outputs)
    packed = range(last - len(plan.packed), last)
    found = {op.sym_name.data: [a.data == "read" for a in op.access] for op in kernels}
    for kernel, first, count, *_ in plan.calls:
        bases = [base for base, _ in plan.arguments[first : first + count] if base != NULL]
        known = found[plan.kernels[kernel]]
        for n, base in enumerate(bases):
            known[n] = known[n] and base in packed
    return {name: tuple(reads) for name, reads in found.items()}


def _origin(module: ModuleOp, kernel: KernelOp) -> str:
    for op in module.walk():
        if isinstance(op, CallOp) and op.callee.string_value() == kernel.sym_name.data:
            launch = op.parent_op()
            names = launch.attributes.get("lamina.src") if launch is not None else None
            if isinstance(names, ArrayAttr):
                listed = ", ".join(n.data for n in cast("ArrayAttr[StringAttr]", names))
                return f" (from node {listed})"
    return ""
