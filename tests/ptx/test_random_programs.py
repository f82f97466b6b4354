"""Random arithmetic gives the same bits in the interpreter and in the host's machine code."""

import ctypes

import llvmlite.binding as llvm
import numpy as np
import pytest
from launching import launch
from nvptx import ptx
from random_programs import INPUTS, Program

KERNEL = """declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
define ptx_kernel void @f(ptr addrspace(1) %x, ptr addrspace(1) %y) {{
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %i = mul i32 %t, 10
  %o = mul i32 %t, {results}
  %g = getelementptr i64, ptr addrspace(1) %x, i32 %i
  %s = getelementptr i64, ptr addrspace(1) %y, i32 %o
  %in = addrspacecast ptr addrspace(1) %g to ptr
  %out = addrspacecast ptr addrspace(1) %s to ptr"""
EDGES = (0, 1, 2, 3, 255, 256, 0x7F, 0x80, 0x7FFF, 0x8000, 0x7FFFFFFF, 0x80000000, 2**63 - 1, 2**63)
FLOATS = (0.0, -0.0, 1.0, -1.0, 1.5, 2.5, 1e-40, 3e38, np.inf, -np.inf, np.nan, 1e10, -3e9, 0.1)
DTYPES = {"half": "f2", "float": "f4", "double": "f8"}


def inputs(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = np.zeros((64, len(INPUTS)), "u8")
    for column, kind in enumerate(INPUTS.values()):
        often = rng.random(64) < 0.5
        if kind.startswith("i"):
            numbers = rng.integers(0, 2**64, 64, dtype="u8")
            x[:, column] = np.where(often, rng.choice(np.array(EDGES, "u8"), 64), numbers)
        else:
            dtype = np.dtype(DTYPES[kind])
            with np.errstate(over="ignore"):
                drawn = np.where(often, rng.choice(FLOATS, 64), 100 * rng.standard_normal(64))
                x[:, column] = drawn.astype(dtype).view(f"u{dtype.itemsize}")
    return x


def on_the_host(program: Program, x: np.ndarray) -> np.ndarray:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    text, results = program.function("define void @f(ptr %in, ptr %out) {")
    features = llvm.get_host_cpu_features().flatten()
    target = llvm.Target.from_default_triple()
    machine = target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=0)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
    engine.finalize_object()
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(
        engine.get_function_address("f")
    )
    y = np.zeros((len(x), results), "u8")
    for row, out in zip(x, y, strict=True):
        call(row.ctypes.data, out.ctypes.data)
    return y


@pytest.mark.parametrize("opt", [0, 3])
@pytest.mark.parametrize("seed", range(8))
def test_random_arithmetic_agrees_with_the_host(seed: int, opt: int) -> None:
    halves = llvm.get_host_cpu_features().get("f16c", False)
    program, x = Program(seed, halves=halves), inputs(seed)
    wanted = on_the_host(program, x)
    text, _ = program.function(KERNEL.format(results=wanted.shape[1]))
    y = launch(ptx(text, opt=opt), 1, len(x), x, np.zeros_like(wanted))[1]
    assert (y == wanted).all(), np.argwhere(y != wanted)[:5]
