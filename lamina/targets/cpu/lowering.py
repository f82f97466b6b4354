"""`tile.kernel` to LLVM IR text: one pass, one table of rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from xdsl.ir import Operation

from lamina.dialects.tile import KernelOp
from lamina.targets.cpu import (
    rules_arith,
    rules_cast,
    rules_control,
    rules_dot,
    rules_math,
    rules_memory,
    rules_move,
    rules_reduce,
)
from lamina.targets.cpu.emitter import Emitter, Rule
from lamina.targets.cpu.features import CpuFeatures
from lamina.targets.plans.nodes import NodeTable

RULES: Final[Mapping[type[Operation], Rule]] = {
    **rules_arith.RULES,
    **rules_cast.RULES,
    **rules_control.RULES,
    **rules_dot.RULES,
    **rules_math.RULES,
    **rules_memory.RULES,
    **rules_move.RULES,
    **rules_reduce.RULES,
}
"""What each operation of a kernel becomes."""

ACCEPTS: Final = frozenset(op.name for op in (KernelOp, *RULES))
"""The names of the operations that a kernel may hold."""


@dataclass(frozen=True)
class KernelCode:
    """A kernel as an LLVM module: `void @name(ptr args, ptr worker)`.

    `scratch_bytes` is how much 64-byte aligned memory each worker must lend it.
    """

    name: str
    text: str
    scratch_bytes: int


def emit_kernel(kernel: KernelOp, features: CpuFeatures, nodes: NodeTable) -> KernelCode:
    """Return the LLVM IR of `kernel`; LoweringError names an operation that has no rule."""
    emitter = Emitter(kernel, features, nodes, RULES)
    emitter.lower(kernel.body.block)
    name = kernel.sym_name.data
    builder = emitter.builder
    text = [
        f'target triple = "{features.triple}"',
        *(f"{symbol} = {value}" for symbol, value in builder.globals.items()),
        *builder.declarations,
        f'define void @"{name}"(ptr noalias readonly %args, ptr noalias %worker) #0 {{',
        "entry:",
        *builder.scopes[0].lines,
        "  ret void",
        "}",
        f"attributes #0 = {{ {_attributes(features)} }}",
        "attributes #1 = { nounwind memory(none) }",
        "!0 = !{}",
        "!1 = !{i32 1}",
        "",
    ]
    return KernelCode(name, "\n".join(text), emitter.scratch_bytes)


def _attributes(features: CpuFeatures) -> str:
    # Without "no-builtins" a loop of stores may become a call of memset.
    words = ["nounwind", '"no-builtins"']
    if features.vector_bytes == 64:
        words += ['"min-legal-vector-width"="512"', '"prefer-vector-width"="512"']
    return " ".join(words)
