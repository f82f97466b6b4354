"""What threads do together on the adapter: shuffles, shared memory, folded grids, checks."""

import numpy as np
import pytest
from device_kernel import run_on
from simt_text import SUM, SUM_ARGS, TRANSPOSE, TRANSPOSE_ARGS, checks, kernel, parse

from lamina.errors import InputError, LoweringError
from lamina.targets.webgpu.compiled_kernels import folded
from lamina.targets.webgpu.printer import NodeTable
from lamina.targets.webgpu.wgsl import emit_kernel

F32 = np.float32
EXCHANGE = """simt.kernel @k attributes {{symbols = ["n"], grid = ["1"], access = ["read", "write"],
    threads = 64 : i64, subgroup = 8 : i64}} {{
  ^bb0(%x: memref<?x{kind}>, %y: memref<?x{kind}>, %n: index):
    %t = simt.thread_id
    %v = simt.load %x[%t] : memref<?x{kind}>, index -> {kind}
    %a = simt.shuffle %v {{xor = 4 : i64}} : ({kind}) -> {kind}
    %b = simt.shuffle %a {{xor = 1 : i64}} : ({kind}) -> {kind}
    simt.store %b, %y[%t] : {kind}, memref<?x{kind}>, index
    tile.return
}}"""
COUNT = """
  %b = tile.program_id {dim = 0 : i64}
  %c1 = tile.program_id {dim = 1 : i64}
  %k = arith.muli %c1, %n : index
  %at = arith.addi %b, %k : index
  %v = tile.cast %at : (index) -> f32
  %one = arith.cmpi eq, %t, %c0 : index
  simt.store %v, %y[%at] mask %one : i1 : f32, memref<?xf32>, index"""
AT_LEAST = """
  %v = simt.load %x[%t] : memref<?xf32>, index -> f32
  %z = arith.constant 0.0 : f32
  %ok = tile.compare %v, %z {kind = "ge"} : (f32, f32) -> i1
""" + checks("%ok", "/first", "/second")


@pytest.mark.parametrize("n", [0, 1, 3, 31, 1000])
def test_rows_are_summed_by_subgroups_and_then_by_the_block(device, n):
    x = np.random.default_rng(n).integers(-9, 9, (3, n)).astype(F32)
    y = np.full(3, -1, F32)
    run_on(device, kernel(SUM, SUM_ARGS, grid="3"), [x, y], {"n": n})
    np.testing.assert_array_equal(y, x.sum(1))


@pytest.mark.parametrize("n", [1, 3, 31])
def test_a_matrix_is_transposed_through_shared_memory(device, n):
    x, y = np.arange(33 * n, dtype=F32).reshape(33, n), np.full((n, 33), -1, F32)
    program = kernel(TRANSPOSE, TRANSPOSE_ARGS, grid='3", "ceildiv(n, 16)')
    run_on(device, program, [x, y], {"n": n})
    np.testing.assert_array_equal(y, x.T)


@pytest.mark.parametrize("subgroups", [True, False])
@pytest.mark.parametrize("kind", ["f32", "i32", "i64", "i8", "i1"])
def test_registers_of_every_type_are_exchanged(device, kind, subgroups):
    dtype = {"f32": F32, "i1": np.bool_}.get(kind, f"int{kind[1:]}")
    x = np.random.default_rng(1).integers(-99, 99, 64).astype(dtype)
    y = np.zeros_like(x)
    run_on(device, parse(EXCHANGE.format(kind=kind)), [x, y], {"n": 0}, subgroups=subgroups)
    np.testing.assert_array_equal(y, x[np.arange(64) ^ 5])


def test_subgroups_are_used_where_they_are_wide_enough(device):
    text = emit_kernel(parse(EXCHANGE.format(kind="f32")), [False, False], NodeTable())
    assert text.varied == ("shuffle_f32",)
    assert device.subgroup >= text.subgroup


@pytest.mark.parametrize("most", [1, 2, 7, 65535])
def test_a_grid_is_folded_where_a_dimension_is_too_long(device, most):
    y = np.full(15, -1, F32)
    program = kernel(COUNT, grid='n", "3')
    run_on(device, program, [np.zeros(1, F32), y], {"n": 5}, most_blocks=max(most, 3))
    np.testing.assert_array_equal(y, np.arange(15))


def test_a_folded_grid_has_room_for_every_block():
    assert folded((70_000, 1, 1), 65_535) == (65_535, 2, 1)
    assert folded((2, 3, 4), 65_535) == (24, 1, 1)
    assert np.prod(folded((100, 100, 1), 10)) >= 10_000
    assert max(folded((100, 10, 1), 10)) <= 10


def test_the_first_check_that_fails_is_named(device):
    x = np.ones(64, F32)
    run_on(device, kernel(AT_LEAST), [x, x], {"n": 64})
    x[40] = -1
    with pytest.raises(InputError, match=r"^/first$"):
        run_on(device, kernel(AT_LEAST), [x, x], {"n": 64})


def test_what_is_no_wgsl_is_refused_by_name():
    double = "%v = simt.load %x[%t] : memref<?xf64>, index -> f64"
    with pytest.raises(LoweringError, match=r"^webgpu has no 64-bit floats.* of kernel @k$"):
        emit_kernel(
            kernel(double, "%x: memref<?xf64>, %y: memref<?xf32>"), [False] * 2, NodeTable()
        )
    large = "%c = arith.constant 4294967296 : index"
    with pytest.raises(LoweringError, match="indices of 32 bits, which 4294967296 does not fit"):
        emit_kernel(kernel(large), [False] * 2, NodeTable())
    memory = '%m = simt.memory : memref<9000xf32, "workgroup">'
    with pytest.raises(LoweringError, match="has 32768 bytes for the threads of a block"):
        emit_kernel(kernel(memory), [False] * 2, NodeTable())


@pytest.mark.parametrize("number", ["0x7FC00000", "0x7F800000", "0xFF800000", "0x00000001", "3.0"])
def test_constants_that_are_no_numbers_are_there(device, number):
    body = f"""
      %v = arith.constant {number} : f32
      simt.store %v, %y[%t] : f32, memref<?xf32>, index"""
    x, y = np.zeros(1, F32), np.zeros(64, F32)
    run_on(device, kernel(body), [x, y], {"n": 0})
    bits = int(number, 16) if number.startswith("0x") else 0x40400000
    assert (y.view(np.uint32) == bits).all()


def test_narrow_elements_that_a_block_shares_take_a_word_each():
    memory = '%m = simt.memory : memref<SIZExf16, "workgroup">'
    text = emit_kernel(kernel(memory.replace("SIZE", "8000")), [False] * 2, NodeTable())
    assert text.workgroup_bytes == 32000
    with pytest.raises(LoweringError, match="has 32768 bytes for the threads of a block, not"):
        emit_kernel(kernel(memory.replace("SIZE", "9000")), [False] * 2, NodeTable())
