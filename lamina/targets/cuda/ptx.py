"""LLVM IR to PTX, through the NVPTX back end of LLVM; needs neither a GPU nor a driver."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import llvmlite.binding as llvm

from lamina.errors import LoweringError
from lamina.targets.cuda.architectures import check_architecture
from lamina.targets.cuda.nvvm import TRIPLE

INTRINSICS: Final = (
    *("ceil", "copysign", "fabs", "floor", "fma", "fptosi.sat", "fptoui.sat", "maximum"),
    *("minimum", "roundeven", "smax", "smin", "sqrt", "trunc", "umax", "umin"),
    *("nvvm.barrier.cta.sync.aligned.all", "nvvm.read.ptx.sreg", "nvvm.shfl.sync.bfly.i32"),
    *("nvvm.f2tf32.rna", "nvvm.mma.m16n8k8", "nvvm.mma.m16n8k16", "nvvm.mma.m16n8k32"),
    "nvvm.ldmatrix.sync.aligned.m8n8",
    *("nvvm.cp.async.ca.shared.global", "nvvm.cp.async.cg.shared.global"),
    *("nvvm.cp.async.commit.group", "nvvm.cp.async.wait.group"),
    *("nvvm.redux.sync", "nvvm.vote.all.sync", "nvvm.vote.any.sync"),
)
"""The intrinsics that the back end selects on every architecture of the list.

One that it cannot select ends the process, so that none may reach it unseen.
"""

ALONE: Final = {"sm_90a": ("nvvm.wgmma",)}
"""Those that it selects on one architecture alone."""

_DECLARED: Final = re.compile(r"^declare .*@llvm\.([\w.]+)\(", re.MULTILINE)


def to_ptx(texts: Sequence[str], arch: str) -> str:
    """Return the PTX of kernels, each an LLVM module of its own, in one module.

    Raises InputError for an architecture that is not known, and LoweringError for an intrinsic
    that the back end may not know, or IR that it refuses.
    """
    machine = _machine(arch)
    for text in texts:
        _check_intrinsics(text, arch)
    try:
        modules = [llvm.parse_assembly(text) for text in texts]
    except RuntimeError as error:
        raise LoweringError(f"cuda: LLVM refuses a kernel: {error}") from None
    if not modules:
        return ""
    whole = modules[0]
    for module in modules[1:]:
        whole.link_in(module)
    whole.data_layout = str(machine.target_data)
    whole.verify()
    builder = llvm.create_pass_builder(machine, llvm.PipelineTuningOptions(3))
    builder.getModulePassManager().run(whole, builder)
    return machine.emit_assembly(whole)


@lru_cache
def _machine(arch: str) -> llvm.TargetMachine:
    check_architecture(arch)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(TRIPLE)
    return target.create_target_machine(cpu=arch, features="", opt=3)


def _check_intrinsics(text: str, arch: str) -> None:
    allowed = (*INTRINSICS, *ALONE.get(arch, ()))
    for name in _DECLARED.findall(text):
        if not any(name == known or name.startswith(f"{known}.") for known in allowed):
            raise LoweringError(f"cuda has no instruction for llvm.{name} on {arch}")
