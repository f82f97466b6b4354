"""Code for another architecture than this machine's: complete, right, and loaded only there."""

import re
from functools import cache
from struct import iter_unpack, unpack_from

import numpy as np
import pytest
from checkpoints import CHECKPOINTS
from decoding import run_steps

import lamina
from lamina.dialects.plan import CallOp
from lamina.dialects.text import parse_module
from lamina.errors import TargetUnavailable
from lamina.passes.decompose_math import decompose_functions
from lamina.plugins import manager
from lamina.targets.cpu.binding import llvm
from lamina.targets.cpu.features import LEVELS, CpuFeatures, architecture_of, emittable
from lamina.targets.cpu.jit import assembly, compile_text
from lamina.targets.cpu.lowering import NodeTable, emit_kernel
from lamina.targets.cpu.sections import CODE
from lamina.targets.cpu.target import CpuTarget
from lamina.targets.reference.executable import ReferenceExecutable
from lamina.targets.reference.plan import launched
from lamina.testing.kernels import ZOO, read_kernel

AARCH64, SYMTAB = 183, 2
HERE = architecture_of(llvm.get_process_triple())
ELSEWHERE = next(name for name, level in LEVELS.items() if level.architecture not in ("", HERE))
NEON = emittable("neon")
DOUBLE = """
func.func @forward(
    %x: tensor<3xf32> {lamina.input = "x"}
) -> (tensor<3xf32> {lamina.output = "y"}) {
  %y = nn.add %x, %x : tensor<3xf32>
  func.return %y : tensor<3xf32>
}
"""


def machine(code: bytes) -> int:
    """The number that ELF has for the architecture of object code."""
    return unpack_from("<H", code, 18)[0]


def missing(code: bytes) -> int:
    """How many symbols object code needs from elsewhere: the null symbol is not one of them."""
    (start,), (count,) = unpack_from("<Q", code, 0x28), unpack_from("<H", code, 0x3C)
    headers = iter_unpack("<IIQQQQIIQQ", code[start : start + 64 * count])
    table = next(code[at : at + size] for _, kind, _, _, at, size, *_ in headers if kind == SYMTAB)
    symbols = list(iter_unpack("<IBBHQQ", table))
    assert len(symbols) > 1
    return sum(section == 0 for _, _, _, section, _, _ in symbols[1:])


@cache
def zoo_text(name: str, features: CpuFeatures = NEON) -> str:
    case = next(case for case in ZOO if case.name == name)
    kernel = read_kernel(case.path)
    decompose_functions(kernel)
    return emit_kernel(kernel, features, NodeTable()).text


@pytest.fixture
def tiny(request, tmp_path):
    return lamina.read(CHECKPOINTS[request.param]().write(tmp_path))


@pytest.mark.parametrize("name", [case.name for case in ZOO])
def test_a_program_is_whole_machine_code_for_aarch64(name):
    text = zoo_text(name)
    code = compile_text(text, NEON)
    assert "llvm.x86" not in text
    assert (machine(code), missing(code)) == (AARCH64, 0)


def test_dots_of_bytes_are_instructions_where_the_level_has_them():
    features = emittable("neondot")
    listing = assembly(zoo_text("norm_quantize_matmul", features), features)
    assert re.search(r"\bsdot\s+v\d+\.4s, v\d+\.16b", listing)
    assert not re.search(r"\bsmull", listing)


def test_the_listing_is_of_the_instructions_of_neon():
    listing = assembly(zoo_text("norm_quantize_matmul"), NEON)
    assert re.search(r"\bfmla\s+v\d+\.4s", listing)
    assert not re.search(r"^\s+bl\s", listing, re.MULTILINE)


@pytest.mark.parametrize(
    ("tiny", "level", "most"),
    [("llama", "neon", 1e-4), ("gguf-q4_1", "neondot", 0.02)],
    indirect=["tiny"],
)
def test_a_step_of_a_model_computes_what_the_plan_means(tiny, most, level, emulator):
    def call(run, op, buffers):
        kernel, values, _ = launched(run, op)
        run.failed = emulator().run(kernel, buffers, {**run.extents, **values}, level)
        return ()

    plan = lamina.compiler.lower(tiny, CpuTarget(features=level))
    emulated, meant = (ReferenceExecutable(plan, tiny.weights, r) for r in ({CallOp: call}, {}))
    steps = [{"a": [1, 5, 9, 2, 7], "b": [4]}, {"a": [3], "b": [8]}]
    for found, expected in zip(run_steps(emulated, steps), run_steps(meant, steps), strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=most)


@pytest.mark.parametrize("tiny", ["llama", "gguf-q4_1"], indirect=True)
def test_the_kernels_of_a_model_are_whole_machine_code_for_aarch64(tiny):
    target = CpuTarget(features="neon")
    artifact = target.emit(manager.context(), lamina.compiler.lower(tiny, target))
    codes = [code for name, code in artifact.sections.items() if name.startswith(CODE)]
    assert len(codes) == artifact.facts["kernels"] > 5
    assert all((machine(code), missing(code)) == (AARCH64, 0) for code in codes)


def test_code_for_another_architecture_is_emitted_and_not_loaded():
    told = f"the artifact is for {LEVELS[ELSEWHERE].architecture}, this machine is {HERE}"
    module = parse_module(manager.context(), DOUBLE, "double")
    with pytest.raises(TargetUnavailable, match=told):
        lamina.compile(module, f"cpu{{features={ELSEWHERE}}}")
