"""LLVM IR text to object code or assembly."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from lamina.errors import LoweringError, TargetUnavailable
from lamina.targets.cpu.binding import llvm
from lamina.targets.cpu.features import CpuFeatures, architecture_of

if TYPE_CHECKING:
    from llvmlite.binding import ModuleRef, TargetMachine

_CODE_SPEED = 2


def compile_text(text: str, features: CpuFeatures) -> bytes:
    """Return the object code of an LLVM module; LoweringError if LLVM refuses the text."""
    machine = _machine(features)
    return machine.emit_object(_optimised(text, machine))


def assembly(text: str, features: CpuFeatures) -> str:
    """Return the assembly that `compile_text` would encode."""
    machine = _machine(features)
    return machine.emit_assembly(_optimised(text, machine))


def optimised(text: str, features: CpuFeatures) -> str:
    """Return the module as it is after LLVM's passes, before instructions are chosen."""
    return str(_optimised(text, _machine(features)))


@cache
def initialise() -> None:
    """Make LLVM ready for this machine."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@cache
def _initialise_others() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


@cache
def _machine(features: CpuFeatures) -> TargetMachine:
    initialise()
    architecture = architecture_of(features.triple)
    if architecture != architecture_of(llvm.get_process_triple()):
        _initialise_others()
    try:
        target = llvm.Target.from_triple(features.triple)
    except RuntimeError as error:
        raise TargetUnavailable(f"this LLVM makes no code for {architecture}: {error}") from error
    return target.create_target_machine(
        cpu=features.cpu, features=features.flags, opt=_CODE_SPEED, reloc="pic", codemodel="small"
    )


def _optimised(text: str, machine: TargetMachine) -> ModuleRef:
    try:
        module = llvm.parse_assembly(text)
    except RuntimeError as error:
        raise LoweringError(f"LLVM refuses the text of a kernel: {error}") from error
    module.data_layout = str(machine.target_data)
    module.verify()
    # What is equal or loop-invariant was written once and outside already: the usual pipeline
    # takes as long again as making the code, and leaves it as it is.
    passes = llvm.create_new_module_pass_manager()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, llvm.create_pass_builder(machine, llvm.PipelineTuningOptions()))
    return module
