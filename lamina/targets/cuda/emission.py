"""A planned module to an artifact: PTX, the plan's tables, and what is left for loading."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from xdsl.dialects.builtin import ModuleOp

from lamina.targets.base import Artifact
from lamina.targets.cuda.compiled_kernels import KernelFacts
from lamina.targets.cuda.cubins import Cubin, link, linker_version
from lamina.targets.cuda.nvvm import ACCEPTS, emit_kernel
from lamina.targets.cuda.printer import NodeTable
from lamina.targets.cuda.ptx import to_ptx
from lamina.targets.cuda.sections import CUBIN, KERNELS, PTX
from lamina.targets.plans.emission import artifact_of, emit_each, kernels_to_bytes
from lamina.targets.plans.plan_encoding import DEVICE_PLAN_OPS, encode_plan

ACCEPTED: Final = ACCEPTS | DEVICE_PLAN_OPS | {"builtin.module", "func.func"}
"""The operations that can be emitted."""

_ENTRY: Final = re.compile(r"^\t// \.globl\t(\w+)$", re.MULTILINE)


def emit_artifact(name: str, module: ModuleOp, arch: str) -> Artifact:
    """Compile the kernels of a planned module to PTX for `arch` and encode its plan.

    With the linker's wheel there is machine code too, and the facts tell what each kernel takes.
    """
    nodes = NodeTable()
    codes = emit_each(module, lambda kernel: emit_kernel(kernel, nodes, arch))
    plan = replace(encode_plan(module, 0, ()), nodes=tuple(nodes.names))
    kernels = [
        KernelFacts(
            code.name, code.threads, code.shared_bytes, tuple(each.facts for each in code.maps)
        )
        for code in codes
    ]
    ptx = to_ptx([code.text for code in codes], arch).encode()
    sections = {PTX: ptx, KERNELS: kernels_to_bytes(kernels)}
    facts: dict[str, Any] = {"arch": arch}
    if codes and (cubin := link(ptx, arch)) is not None:
        sections[CUBIN] = cubin.code
        facts |= {"nvjitlink": linker_version(), "usage": _whole_usage(cubin, kernels)}
    return artifact_of(name, module, plan, sections, facts)


def _whole_usage(cubin: Cubin, kernels: Sequence[KernelFacts]) -> dict[str, dict[str, int]]:
    """Return what each kernel takes, with the shared memory that its launch gives it."""
    return {
        each.name: {
            **cubin.usage[each.name],
            "shared_bytes": cubin.usage[each.name]["shared_bytes"] + each.dynamic_bytes,
        }
        for each in kernels
    }


def listings(module: ModuleOp, artifact: Artifact) -> Mapping[str, str]:
    """Return the LLVM IR and the PTX of each kernel by file name."""
    nodes = NodeTable()
    codes = emit_each(module, lambda kernel: emit_kernel(kernel, nodes))
    ptx = _entries(artifact.sections[PTX].decode())
    llvm = {f"{code.name}.ll": code.text for code in codes}
    return llvm | {f"{name}.ptx": text for name, text in ptx.items()}


def _entries(ptx: str) -> dict[str, str]:
    """Return a module of its own for each kernel of a module of many."""
    head, *rest = _ENTRY.split(ptx)
    return {
        name: f"{head}\t// .globl\t{name}{body}"
        for name, body in zip(rest[::2], rest[1::2], strict=True)
    }
