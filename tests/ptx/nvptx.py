"""PTX from small LLVM IR texts."""

import functools

import llvmlite.binding as llvm

HEADER = 'target triple = "nvptx64-nvidia-cuda"\n'


@functools.cache
def ptx(ir: str, cpu: str = "sm_80", features: str = "", opt: int = 3) -> str:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple("nvptx64-nvidia-cuda")
    machine = target.create_target_machine(cpu=cpu, features=features, opt=opt)
    module = llvm.parse_assembly(HEADER + ir)
    module.data_layout = str(machine.target_data)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=opt)
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return machine.emit_assembly(module)
