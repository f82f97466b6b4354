"""What the machine code of kernels looks like, and how it is compiled."""

import re
from dataclasses import replace

import pytest
from kernel_text import parse

from lamina.errors import InputError, LoweringError
from lamina.passes.decompose_math import decompose_functions
from lamina.targets.cpu.features import CpuFeatures, detect, levels
from lamina.targets.cpu.jit import assembly, compile_text
from lamina.targets.cpu.kernel_compiler import KernelCompiler
from lamina.targets.cpu.lowering import NodeTable, emit_kernel
from lamina.testing.kernels import ZOO, read_kernel

FLOATS = """tile.kernel @floats attributes {symbols = ["K"], grid = ["1"], access = ["read", "read", "write"]} {
^bb0(%a: memref<?x4x14xf32>, %b: memref<?x4x32xf32>, %y: memref<14x32xf32>, %K: index):
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant dense<0.0> : vector<14x32xf32>
  %r = scf.for %k = %c0 to %K step %c1 iter_args(%s = %z) -> (vector<14x32xf32>) {
    %l = tile.load %a[%k, %c0, %c0] {shape = array<i64: 1, 4, 14>, in_bounds = array<i64: 0>} : memref<?x4x14xf32> [index, index, index] -> vector<4x14xf32>
    %w = tile.load %b[%k, %c0, %c0] {shape = array<i64: 1, 4, 32>, in_bounds = array<i64: 0>} : memref<?x4x32xf32> [index, index, index] -> vector<4x32xf32>
    %d = tile.dot %l, %w, %s {contract = [[0, 0]]} : (vector<4x14xf32>, vector<4x32xf32>, vector<14x32xf32>) -> vector<14x32xf32>
    scf.yield %d : vector<14x32xf32>
  }
  tile.store %r, %y[%c0, %c0] {shape = array<i64: 14, 32>} : vector<14x32xf32>, memref<14x32xf32> [index, index]
  tile.return
}"""

BYTES = """tile.kernel @bytes attributes {symbols = ["K"], grid = ["1"], access = ["read", "read", "write"]} {
^bb0(%a: memref<?x4x8x4xi8>, %b: memref<?x4x16x4xi8>, %y: memref<4x16xi32>, %K: index):
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant dense<0> : vector<4x16xi32>
  %c15 = arith.constant dense<15> : vector<4x1x16x4xi8>
  %c4 = arith.constant dense<4> : vector<4x1x16x4xi8>
  %r = scf.for %k = %c0 to %K step %c1 iter_args(%s = %z) -> (vector<4x16xi32>) {
    %q = tile.load %b[%k, %c0, %c0, %c0] {shape = array<i64: 1, 4, 16, 4>, in_bounds = array<i64: 0>} : memref<?x4x16x4xi8> [index, index, index, index] -> vector<4x1x16x4xi8>
    %lo = arith.andi %q, %c15 : vector<4x1x16x4xi8>
    %hi = arith.shrui %q, %c4 : vector<4x1x16x4xi8>
    %j = tile.join %lo, %hi {dim = 1 : i64} : (vector<4x1x16x4xi8>, vector<4x1x16x4xi8>) -> vector<4x2x16x4xi8>
    %w = tile.reshape %j : (vector<4x2x16x4xi8>) -> vector<8x16x4xi8>
    %l = tile.load %a[%k, %c0, %c0, %c0] {shape = array<i64: 1, 4, 8, 4>, in_bounds = array<i64: 0>} : memref<?x4x8x4xi8> [index, index, index, index] -> vector<4x8x4xi8>
    %d = tile.dot %l, %w, %s {contract = [[1, 0], [2, 2]], unsigned = array<i64: 0, 1>} : (vector<4x8x4xi8>, vector<8x16x4xi8>, vector<4x16xi32>) -> vector<4x16xi32>
    scf.yield %d : vector<4x16xi32>
  }
  tile.store %r, %y[%c0, %c0] {shape = array<i64: 4, 16>} : vector<4x16xi32>, memref<4x16xi32> [index, index]
  tile.return
}"""


def emitted(text: str, features: CpuFeatures) -> str:
    return emit_kernel(parse(text), features, NodeTable()).text


def hot_loop(text: str, features: CpuFeatures) -> list[str]:
    """The instructions between the label that the last backward branch goes to and that branch."""
    lines = [line.strip() for line in assembly(emitted(text, features), features).splitlines()]
    labels = {line[:-1]: n for n, line in enumerate(lines) if line.endswith(":")}
    jumps = [(n, re.match(r"j\w+\s+(\S+)", line)) for n, line in enumerate(lines)]
    ends = [(n, m[1]) for n, m in jumps if m and labels.get(m[1], n) < n]
    end, label = ends[-1]
    return lines[labels[label] : end + 1]


needs_zmm = pytest.mark.skipif("avx512" not in levels(), reason="this machine has no AVX-512")
needs_vnni = pytest.mark.skipif("avx512vnni" not in levels(), reason="this machine has no VNNI")


TUNINGS = ("x86-64-v4", "icelake-server", "sapphirerapids", "znver4")


@needs_zmm
@pytest.mark.parametrize("cpu", TUNINGS)
def test_a_full_accumulator_stays_in_the_registers_whatever_the_tuning(cpu):
    features = replace(detect("avx512"), cpu=cpu, flags="-prefer-256-bit")
    loop = hot_loop(FLOATS, features)
    assert sum("vfmadd" in line for line in loop) == 4 * 28
    assert not [line for line in loop if "rsp" in line or "rbp" in line]


@needs_vnni
def test_packed_bytes_are_contracted_as_they_lie():
    loop = hot_loop(BYTES, detect("avx512vnni"))
    assert sum("vpdpbusd" in line for line in loop) == 4 * 8
    assert not [line for line in loop if re.search(r"vperm|vpshuf|vpunpck|rsp", line)]


@needs_vnni
def test_bytes_are_shifted_beside_the_units_that_multiply():
    loop = hot_loop(BYTES, detect())
    assert sum("vpsrlw" in line for line in loop) == 4
    assert not [line for line in loop if "gf2p8" in line]


@needs_vnni
def test_text_is_short_enough_to_compile_quickly():
    for text in (FLOATS, BYTES):
        assert emitted(text, detect("avx512vnni")).count("\n") <= 600


STREAM = """tile.kernel @stream attributes {{symbols = ["n"], grid = ["n"], access = ["read", "write"]}} {{
^bb0(%x: memref<?x{width}xf32>, %y: memref<?x{width}xf32>, %n: index):
  %c0 = arith.constant 0 : index
  %i = tile.program_id {{dim = 0 : i64}}
  %v = tile.load %x[%i, %c0] {{shape = array<i64: 1, 16>, in_bounds = array<i64: 0>}} : memref<?x{width}xf32> [index, index] -> vector<16xf32>
  tile.store %v, %y[%i, %c0] {{shape = array<i64: 1, 16>, in_bounds = array<i64: 0>, nontemporal}} : vector<16xf32>, memref<?x{width}xf32> [index, index]
  tile.return
}}"""


@needs_zmm
@pytest.mark.parametrize(("width", "streams"), [(16, True), (32, True), (20, False)])
def test_only_an_aligned_store_goes_past_the_cache(width, streams):
    # An unaligned one would fault.
    features = detect("avx512")
    listing = assembly(emitted(STREAM.format(width=width), features), features)
    assert ("vmovntps" in listing) == streams


@needs_zmm
def test_what_will_be_read_is_asked_for_ahead():
    features = detect("avx512")
    hint = "tile.prefetch %x[%i, %c0] {shape = array<i64: 2, 48>} : memref<?x64xf32> [index, index]"
    text = STREAM.format(width=64).replace("  tile.return", f"  {hint}\n  tile.return")
    listing = assembly(emitted(text, features), features)
    lines = [int(at or 0) for at in re.findall(r"prefetcht1\s+(\d*)\(", listing)]
    assert lines == [0, 64, 128, 256, 320, 384]


TURN = """tile.kernel @turn attributes {symbols = [], grid = ["1"], access = ["read", "write"]} {
^bb0(%x: memref<16x16xf32>, %y: memref<16x16xf32>):
  %c0 = arith.constant 0 : index
  %v = tile.load %x[%c0, %c0] {shape = array<i64: 16, 16>} : memref<16x16xf32> [index, index] -> vector<16x16xf32>
  %t = tile.transpose %v {perm = array<i64: 1, 0>} : (vector<16x16xf32>) -> vector<16x16xf32>
  tile.store %t, %y[%c0, %c0] {shape = array<i64: 16, 16>} : vector<16x16xf32>, memref<16x16xf32> [index, index]
  tile.return
}"""


@needs_zmm
def test_a_square_is_turned_round_by_riffles_that_its_lanes_share():
    text = emitted(TURN, detect("avx512"))
    assert text.count("shufflevector") == 16 * 4


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize("case", ZOO, ids=lambda case: case.name)
def test_no_kernel_calls_anything(case, level):
    kernel = read_kernel(case.path)
    decompose_functions(kernel)
    code = emit_kernel(kernel, detect(level), NodeTable())
    lines = assembly(code.text, detect(level)).splitlines()
    assert not [
        line for line in lines if re.match(r"\s+(call|jmp)\w*\s+[^.*%\s]", line) or "@PLT" in line
    ]


def compiled(texts: list[str], features: CpuFeatures, processes: int) -> list[bytes]:
    with KernelCompiler(features, processes) as compiler:
        for text in texts:
            compiler.add(text)
        return compiler.objects()


def test_many_kernels_compile_alike_in_one_process_and_in_two():
    features = detect()
    texts = [emitted(text, features) for text in (FLOATS, BYTES)]
    padded = [text + ";" * 150_000 for text in texts]
    alone = [compile_text(text, features) for text in texts]
    assert compiled(padded, features, 2) == alone
    assert compiled(padded, features, 0) == alone


@pytest.mark.parametrize("interpreter", [None, "", "/bin/echo", "/nonexistent/python"])
def test_a_child_that_cannot_start_costs_only_time(
    interpreter: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", interpreter)
    features = detect()
    texts = [emitted(text, features) for text in (FLOATS, BYTES)]
    expected = [compile_text(text, features) for text in texts]
    assert compiled([text + ";" * 150_000 for text in texts], features, 2) == expected


def test_a_text_that_llvm_refuses_is_an_error_in_every_process():
    wrong = "define void @f() { ret i32 %missing }" + ";" * 300_000
    with pytest.raises(LoweringError, match="LLVM refuses"):
        compiled([wrong, wrong, wrong], detect(), 2)


def test_a_level_is_known_by_name_and_needs_its_machine():
    assert detect("generic").vector_bytes == 16
    with pytest.raises(InputError, match="no CPU level 'avx1024'"):
        detect("avx1024")
