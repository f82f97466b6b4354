"""A planned module to an artifact: object code, the plan's tables, and what is left for loading."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import llvmlite
from xdsl.dialects.builtin import ModuleOp

import lamina
from lamina.dialects.tile import KernelOp
from lamina.errors import LoweringError
from lamina.targets.base import Artifact
from lamina.targets.cpu.features import CpuFeatures
from lamina.targets.cpu.jit import assembly
from lamina.targets.cpu.kernel_compiler import KernelCompiler
from lamina.targets.cpu.lowering import ACCEPTS, KernelCode, NodeTable, emit_kernel
from lamina.targets.cpu.sections import CODE
from lamina.targets.cpu.threads import default_threads
from lamina.targets.module_text import part_of
from lamina.targets.plans.plan_encoding import PLAN_OPS, encode_plan
from lamina.targets.plans.plan_tables import HOST
from lamina.targets.plans.sections import HOSTS, PLAN, PREPARE
from lamina.targets.signature import signature_of

ACCEPTED: Final = ACCEPTS | PLAN_OPS | {"builtin.module", "func.func"}
"""The operations that can be emitted."""

_MOST_PROCESSES: Final = 2


def emit_artifact(name: str, module: ModuleOp, features: CpuFeatures) -> Artifact:
    """Compile the kernels of a planned module for `features` and encode its plan."""
    nodes = NodeTable()
    codes: list[KernelCode] = []
    # What is compiled elsewhere meanwhile takes neither time nor memory of this process.
    processes = max(1, min(_MOST_PROCESSES, default_threads() - 1))
    with KernelCompiler(features, processes) as compiler:
        for code in _kernels(module, features, nodes):
            compiler.add(code.text)
            codes.append(code)
        scratch = max((code.scratch_bytes for code in codes), default=0)
        encoded = encode_plan(module, scratch, nodes.names)
        if any(buffer.base == HOST for host in encoded.hosts for buffer in host.buffers):
            raise LoweringError(
                f"{name} has no memory beside the host's: plan-copies is not for it"
            )
        plan = encoded.to_bytes()
        prepare = part_of(module, frozenset({PREPARE}))
        hosts = part_of(module, frozenset(host.name for host in encoded.hosts))
        objects = compiler.objects()
    sections = {
        **{f"{CODE}{c.name}": code for c, code in zip(codes, objects, strict=True)},
        PLAN: plan,
        PREPARE: prepare,
        HOSTS: hosts,
    }
    facts = {
        "lamina": lamina.__version__,
        "llvmlite": llvmlite.__version__,
        "level": features.level,
        "cpu": features.cpu,
        "flags": features.flags,
        "triple": features.triple,
        "kernels": len(codes),
        "launches": encoded.launches,
        "host_calls": [host.name for host in encoded.hosts],
    }
    return Artifact(name, signature_of(module), sections, facts)


def kernel_listings(module: ModuleOp, features: CpuFeatures) -> Mapping[str, str]:
    """Return the LLVM IR and the assembly of each kernel by file name."""
    codes = list(_kernels(module, features, NodeTable()))
    llvm = {f"{code.name}.ll": code.text for code in codes}
    return llvm | {f"{code.name}.s": assembly(code.text, features) for code in codes}


def _kernels(module: ModuleOp, features: CpuFeatures, nodes: NodeTable) -> Iterator[KernelCode]:
    kernels = [op for op in module.ops if isinstance(op, KernelOp)]
    return (emit_kernel(kernel, features, nodes) for kernel in kernels)
