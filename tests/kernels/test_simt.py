"""Programs of threads in the reference: what they compute, and every way in which threads meet."""

import time

import ml_dtypes
import numpy as np
import pytest
from simt_text import SUM, SUM_ARGS, TRANSPOSE, TRANSPOSE_ARGS, checks, kernel

from lamina.dialects.simt import KernelOp
from lamina.errors import InputError, LaminaError
from lamina.targets.reference.simt import run_simt_kernel

F32 = np.float32
SIZES = (0, 1, 3, 31, 1000)


def whole(size: int) -> np.ndarray:
    return np.random.default_rng(size).integers(-9, 9, size).astype(F32)


def run(program: KernelOp, x: np.ndarray, y: np.ndarray, **options: int) -> np.ndarray:
    run_simt_kernel(program, [x, y], {"n": len(x)}, **options)
    return y


@pytest.mark.parametrize("n", SIZES)
def test_rows_are_summed_by_subgroups_and_then_by_the_block(n):
    x, y = whole(3 * n).reshape(3, n), np.full(3, -1, F32)
    program = kernel(SUM, SUM_ARGS, grid="3")
    run_simt_kernel(program, [x, y], {"n": n}, seed=1)
    np.testing.assert_array_equal(y, x.sum(1))


@pytest.mark.parametrize("n", SIZES[:-1])
@pytest.mark.parametrize("m", [1, 16, 33])
def test_a_matrix_is_transposed_through_shared_memory(m, n):
    x, y = whole(m * n).reshape(m, n), np.full((n, m), -1, F32)
    program = kernel(TRANSPOSE, TRANSPOSE_ARGS, grid='3", "ceildiv(n, 16)')
    run_simt_kernel(program, [x, y], {"n": n})
    np.testing.assert_array_equal(y, x.T)


COPY = """
  %b = tile.program_id {dim = 0 : i64}
  %k = arith.constant 64 : index
  %s = arith.muli %b, %k : index
  %at = arith.addi %s, %t : index
  %in = arith.cmpi slt, %at, %n : index
  %v = simt.load %x[%at] mask %in : i1 {pad = 7.0 : f32} : memref<?xf32>, index -> f32
  simt.store %v, %y[%at] mask %in : i1 : f32, memref<?xf32>, index"""


@pytest.mark.parametrize("n", SIZES)
def test_threads_past_the_end_are_masked(n):
    x, y = whole(n), np.zeros(n, F32)
    np.testing.assert_array_equal(run(kernel(COPY, grid="ceildiv(n, 64)"), x, y), x)


def test_a_masked_load_gives_the_pad():
    body = COPY.replace("%y[%at] mask %in : i1", "%y[%at]")
    y = run(kernel(body), whole(3), np.zeros(64, F32))
    np.testing.assert_array_equal(y, [*whole(3), *[7] * 61])


def test_a_loop_by_what_was_read_takes_it_as_uniform():
    body = """
      %f = simt.load %x[%c0] : memref<?xf32>, index -> f32
      %i = tile.cast %f : (f32) -> index
      %m = simt.uniform %i : (index) -> index
      %c1 = arith.constant 1 : index
      %z = arith.constant 0.0 : f32
      %s = scf.for %j = %c0 to %m step %c1 iter_args(%a = %z) -> (f32) {
        simt.barrier
        %k = tile.cast %t : (index) -> f32
        %b = arith.addf %a, %k : f32
        scf.yield %b : f32
      }
      simt.store %s, %y[%t] : f32, memref<?xf32>, index"""
    y = run(kernel(body), np.array([3], F32), np.zeros(64, F32))
    np.testing.assert_array_equal(y, 3 * np.arange(64))


def test_registers_are_picked_and_joined():
    body = """
      %f = tile.cast %t : (index) -> f32
      %c = arith.constant dense<[5.0, 6.0]> : vector<2xf32>
      %j = simt.join %c, %f : (vector<2xf32>, f32) -> vector<3xf32>
      %p = simt.pick %j {at = array<i64: 2, 0>} : (vector<3xf32>) -> vector<2xf32>
      %i2 = simt.join %t, %t : (index, index) -> vector<2xindex>
      %o = arith.constant dense<[0, 64]> : vector<2xindex>
      %at = arith.addi %i2, %o : vector<2xindex>
      simt.store %p, %y[%at] : vector<2xf32>, memref<?xf32>, vector<2xindex>"""
    y = run(kernel(body), whole(1), np.zeros(128, F32))
    np.testing.assert_array_equal(y, [*range(64), *[5] * 64])


def test_one_condition_selects_among_registers():
    body = """
      %k = arith.constant 2 : index
      %q = arith.cmpi slt, %t, %k : index
      %a = arith.constant dense<[1.0, 2.0]> : vector<2xf32>
      %b = arith.constant dense<[3.0, 4.0]> : vector<2xf32>
      %v = tile.select %q, %a, %b : (i1, vector<2xf32>, vector<2xf32>) -> vector<2xf32>
      %w = arith.select %q, %a, %b : vector<2xf32>
      %s = arith.addf %v, %w : vector<2xf32>
      %x0 = simt.pick %s {at = array<i64: 1>} : (vector<2xf32>) -> f32
      simt.store %x0, %y[%t] : f32, memref<?xf32>, index"""
    y = run(kernel(body), whole(1), np.zeros(64, F32))
    np.testing.assert_array_equal(y, [4] * 2 + [8] * 62)


ELEMENTS = {"i1": np.bool_, "i8": np.int8, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


@pytest.mark.parametrize("kind", ELEMENTS)
def test_elements_of_every_width_are_moved(kind):
    body = f"""
      %v = simt.load %x[%t] : memref<?x{kind}>, index -> {kind}
      simt.store %v, %y[%t] : {kind}, memref<?x{kind}>, index"""
    x, y = whole(64).astype(ELEMENTS[kind]), np.zeros(64, ELEMENTS[kind])
    run(kernel(body, f"%x: memref<?x{kind}>, %y: memref<?x{kind}>"), x, y)
    np.testing.assert_array_equal(y, x)


STRIDED = """
  %st = simt.stride %x {dim = 0 : i64} : memref<?xf32, strided<[?]>>
  %at = arith.muli %t, %st : index
  %m = simt.extent %x {dim = 0 : i64} : memref<?xf32, strided<[?]>>
  %in = arith.cmpi slt, %t, %m : index
  %v = simt.load %x[%at] mask %in : i1 : memref<?xf32, strided<[?]>>, index -> f32
  simt.store %v, %y[%t] : f32, memref<?xf32>, index"""


def test_memory_with_strides_is_addressed_by_them():
    program = kernel(STRIDED, "%x: memref<?xf32, strided<[?]>>, %y: memref<?xf32>")
    x = whole(120)
    y = run(program, x[::3], np.zeros(64, F32))
    np.testing.assert_array_equal(y, [*x[::3], *[0] * 24])


def test_between_the_elements_of_strided_memory_is_outside():
    body = STRIDED.replace("%x[%at]", "%x[%t]")
    program = kernel(body, "%x: memref<?xf32, strided<[?]>>, %y: memref<?xf32>")
    with pytest.raises(LaminaError, match=r"thread 1 of block \(0,\) reads element 1 of a memory"):
        run(program, whole(120)[::3], np.zeros(64, F32))


def test_strides_that_the_type_does_not_have_are_refused():
    with pytest.raises(InputError, match=r"argument 0 of kernel @k is memref<\?xf32>, got the str"):
        run(kernel(COPY), whole(128)[::2], np.zeros(64, F32))


def test_an_argument_of_another_type_is_refused():
    with pytest.raises(InputError, match="argument 0 of kernel @k is memref"):
        run(kernel(COPY), whole(64).astype(np.int32), np.zeros(64, F32))


CHECK = """
  %l = arith.constant 9.0 : f32
  %v = simt.load %x[%t] : memref<?xf32>, index -> f32
  %ok = tile.compare %v, %l {kind = "lt"} : (f32, f32) -> i1
""" + checks("%ok", "embed", "later")


def test_a_check_that_fails_in_one_thread_names_its_node():
    x = whole(64)
    run(kernel(CHECK), x, x.copy())
    x[41] = 9
    with pytest.raises(InputError, match="embed: a value of the input is out of range"):
        run(kernel(CHECK), x, x.copy())


RUN = """
  %s = tile.splat %t : (index) -> vector<2xindex>
  %two = arith.constant dense<2> : vector<2xindex>
  %o = arith.constant dense<[{first}, {second}]> : vector<2xindex>
  %d = arith.muli %s, %two : vector<2xindex>
  %at = arith.addi %d, %o : vector<2xindex>
  %n0 = arith.constant dense<[{first}, {limit}]> : vector<2xindex>
  %m = tile.compare %at, %n0 {{kind = "ge"}} : (vector<2xindex>, vector<2xindex>) -> vector<2xi1>
  %v = simt.load %x[%at] mask %m : vector<2xi1> {{run = 2 : i64}}
       : memref<?xf32>, vector<2xindex> -> vector<2xf32>
  simt.store %v, %y[%at] mask %m : vector<2xi1> {{run = 2 : i64}}
      : vector<2xf32>, memref<?xf32>, vector<2xindex>"""


def test_registers_are_moved_in_runs():
    y = run(kernel(RUN.format(first=0, second=1, limit=0)), whole(128), np.zeros(128, F32))
    np.testing.assert_array_equal(y, whole(128))


@pytest.mark.parametrize(("first", "second", "limit"), [(1, 2, 0), (0, 2, 0), (1, 0, 0), (0, 1, 2)])
def test_registers_that_are_no_run_after_all_are_an_error(first, second, limit):
    body = RUN.format(first=first, second=second, limit=limit)
    with pytest.raises(LaminaError, match=r"simt\.load .* under the mask .* are no run of 2"):
        run(kernel(body), whole(192), np.zeros(192, F32))


NEIGHBOUR = """
  %m = simt.memory : memref<64xf32, "workgroup">
  %c1 = arith.constant 1 : index
  %f = tile.cast %t : (index) -> f32
  simt.store %f, %m[%t] : f32, memref<64xf32, "workgroup">, index
  simt.barrier
  %o = arith.xori %t, %c1 : index
  %v = simt.load %m[%o] : memref<64xf32, "workgroup">, index -> f32
  simt.barrier
  simt.store %v, %m[%t] : f32, memref<64xf32, "workgroup">, index
  simt.store %v, %y[%t] : f32, memref<?xf32>, index"""


def test_a_thread_sees_after_a_barrier_what_another_one_stored():
    y = run(kernel(NEIGHBOUR), whole(1), np.zeros(64, F32))
    np.testing.assert_array_equal(y, np.arange(64) ^ 1)


@pytest.mark.parametrize(
    ("barrier", "said"),
    [
        (0, r"@k: %v = simt.load %m\[%o\].*: thread 0 of block \(0,\) reads element 1, which thread 1 wrote, and no barrier"),
        (1, r"@k: simt.store %v, %m\[%t\].*: thread 0 of block \(0,\) writes element 0, which thread 1 read, and no barrier"),
    ],
)  # fmt: skip
def test_a_barrier_removed_is_noticed(barrier, said):
    parts = NEIGHBOUR.split("  simt.barrier\n")
    parts[barrier : barrier + 2] = ["".join(parts[barrier : barrier + 2])]
    with pytest.raises(LaminaError, match=said):
        run(kernel("  simt.barrier\n".join(parts)), whole(1), np.zeros(64, F32))


@pytest.mark.parametrize("program", ["sum", "transpose"])
def test_the_barrier_of_a_whole_program_is_needed(program):
    body, args = {"sum": (SUM, SUM_ARGS), "transpose": (TRANSPOSE, TRANSPOSE_ARGS)}[program]
    grid = "3" if program == "sum" else '3", "3'
    without = kernel(body.replace("simt.barrier", ""), args, grid=grid)
    x, y = np.ones((33, 33), F32), np.zeros((33, 33), F32)
    with pytest.raises(LaminaError, match=r"simt\.load .* wrote, and no barrier is between"):
        run(without, x, y[0] if program == "sum" else y)


def test_two_threads_that_write_one_element_are_noticed_though_they_agree():
    body = """
      %v = arith.constant 1.0 : f32
      %c1 = arith.constant 1 : index
      %h = arith.shrui %t, %c1 : index
      simt.store %v, %y[%h] : f32, memref<?xf32>, index"""
    said = r"thread 0 of block \(0,\) writes element 0, which thread 1 wrote, and no barrier"
    with pytest.raises(LaminaError, match=said):
        run(kernel(body), whole(1), np.zeros(64, F32))


def test_threads_that_write_one_element_in_two_steps_are_noticed():
    body = """
      %v = arith.constant 1.0 : f32
      %c1 = arith.constant 1 : index
      %o = arith.xori %t, %c1 : index
      simt.store %v, %y[%t] : f32, memref<?xf32>, index
      simt.store %v, %y[%o] : f32, memref<?xf32>, index"""
    with pytest.raises(LaminaError, match=r"thread 0 .* writes element 1, which thread 1 wrote"):
        run(kernel(body), whole(1), np.zeros(64, F32))


def test_a_write_of_what_several_threads_read_is_noticed():
    body = """
      %v = simt.load %y[%c0] : memref<?xf32>, index -> f32
      %q = arith.cmpi eq, %t, %c0 : index
      simt.store %v, %y[%c0] mask %q : i1 : f32, memref<?xf32>, index"""
    with pytest.raises(LaminaError, match=r"writes element 0, which other threads read, and no"):
        run(kernel(body), whole(1), np.zeros(1, F32))


def test_a_thread_may_write_again_what_it_wrote_and_read():
    body = """
      %v = simt.load %y[%t] : memref<?xf32>, index -> f32
      %w = arith.addf %v, %v : f32
      simt.store %w, %y[%t] : f32, memref<?xf32>, index
      %u = simt.load %y[%t] : memref<?xf32>, index -> f32
      simt.store %u, %y[%t] : f32, memref<?xf32>, index"""
    np.testing.assert_array_equal(run(kernel(body), whole(1), whole(64)), 2 * whole(64))


WRITE = """
  %b = tile.program_id {dim = 0 : i64}
  %f = tile.cast %b : (index) -> f32
  simt.store %f, %y[%t] : f32, memref<?xf32>, index"""
READ = """
  %b = tile.program_id {{dim = 0 : i64}}
  %v = simt.load %y[%c0] : memref<?xf32>, index -> f32
  simt.barrier
  %writes = arith.cmpi {which}, %t, %b : index
  simt.store %v, %y[%t] mask %writes : i1 : f32, memref<?xf32>, index"""


def test_blocks_that_write_one_element_are_noticed():
    said = r"simt.store .*: block \(1,\) writes element 0, which block \(0,\) wrote"
    with pytest.raises(LaminaError, match=said):
        run(kernel(WRITE, grid="2"), whole(1), np.zeros(64, F32))


@pytest.mark.parametrize(
    ("which", "said"),
    [
        ("eq", r"block \(1,\) reads element 0, which block \(0,\) wrote"),
        ("slt", r"block \(1,\) writes element 0, which other blocks read"),
    ],
)
def test_a_block_that_reads_what_another_one_writes_is_noticed(which, said):
    with pytest.raises(LaminaError, match=said):
        run(kernel(READ.format(which=which), grid="2"), whole(1), np.zeros(64, F32))


def test_blocks_meet_in_memory_that_two_arguments_share():
    body = COPY.replace("%x[%at]", "%x[%t]").replace("mask %in : i1", "")
    y = whole(192)
    program = kernel(body.replace("{pad = 7.0 : f32}", ""), grid="2")
    with pytest.raises(LaminaError, match=r"block \(1,\) reads element 0, which block \(0,\) wro"):
        run(program, y[:64], y[:128])
    run(program, y[128:], y[:128])
    np.testing.assert_array_equal(y[:128], [*y[128:], *y[128:]])


def test_blocks_meet_in_elements_of_different_widths():
    body = """
      %b = tile.program_id {dim = 0 : i64}
      %k = arith.constant 4 : index
      %at = arith.muli %b, %k : index
      %q = arith.cmpi eq, %t, %c0 : index
      %v = simt.load %x[%at] : memref<?xi8>, index -> i8
      %w = tile.cast %v : (i8) -> i32
      simt.barrier
      simt.store %w, %y[%c0] mask %q : i1 : i32, memref<?xi32>, index"""
    y = np.zeros(8, np.int32)
    args = "%x: memref<?xi8>, %y: memref<?xi32>"
    run(kernel(body, args), y.view(np.int8), y[1:])
    with pytest.raises(LaminaError, match=r"block \(1,\) reads element 4, which block \(0,\) wro"):
        run(kernel(body, args, grid="2"), y.view(np.int8), y[1:])


FAR = """
  %o = arith.constant {at} : index
  %q = arith.cmpi eq, %t, %c0 : index
  %z = arith.constant 0.0 : f32
  {access}"""


@pytest.mark.parametrize("at", [-1, 64])
@pytest.mark.parametrize(
    "access",
    [
        "%v = simt.load %x[%o] mask %q : i1 : memref<?xf32>, index -> f32",
        "simt.store %z, %y[%o] mask %q : i1 : f32, memref<?xf32>, index",
    ],
    ids=["load", "store"],
)
def test_an_access_outside_is_an_error(at, access):
    said = rf"kernel @k: .*: thread 0 of block \(0,\) \w+s element {at} of a memory of 64"
    with pytest.raises(LaminaError, match=said):
        run(kernel(FAR.format(at=at, access=access)), whole(64), np.zeros(64, F32))


def test_memory_that_is_to_be_read_cannot_be_written():
    with pytest.raises(LaminaError, match=r"simt\.store .* whose access is read"):
        run(kernel(WRITE, access='"read", "read"'), whole(1), np.zeros(64, F32))


def test_shared_memory_that_nobody_has_written_is_poison_in_every_block():
    body = """
      %m = simt.memory : memref<64xf32, "workgroup">
      %b = tile.program_id {dim = 0 : i64}
      %k = arith.constant 64 : index
      %s = arith.muli %b, %k : index
      %at = arith.addi %s, %t : index
      %v = simt.load %m[%t] : memref<64xf32, "workgroup">, index -> f32
      %z = arith.constant 0.0 : f32
      simt.store %z, %m[%t] : f32, memref<64xf32, "workgroup">, index
      simt.store %v, %y[%at] : f32, memref<?xf32>, index"""
    assert np.isnan(run(kernel(body, grid="2"), whole(1), np.zeros(128, F32))).all()


BRANCH = """
  %k = arith.constant 8 : index
  %q = arith.cmpi slt, %t, %k : index
  scf.if %q {
    %z = arith.constant 0.0 : f32
    simt.store %z, %y[%t] : f32, memref<?xf32>, index
  }"""
LOOP = """
  %k = arith.constant 1 : index
  scf.for %i = %c0 to %t step %k {
  }"""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (BRANCH, r"@k: scf.if .*: threads of block \(0,\) disagree: thread 0 has True, thread 8"),
        (LOOP, r"@k: scf.for .*: threads of block \(0,\) disagree: thread 0 has 0, thread 1 has 1"),
        ("%u = simt.uniform %t : (index) -> index", r"simt.uniform .* disagree"),
    ],
)
def test_control_flow_that_differs_between_threads_is_an_error(body, said):
    with pytest.raises(LaminaError, match=said):
        run(kernel(body), whole(1), np.zeros(64, F32))


def test_thousands_of_steps_take_less_than_two_seconds():
    body = f"""
      %m = simt.memory : memref<64xf32, "workgroup">
      %steps = arith.constant 400 : index
      %c1 = arith.constant 1 : index
      scf.for %i = %c0 to %steps step %c1 {{
        {"".join(f"%v{n} = arith.addi %t, %i : index" + chr(10) for n in range(5))}
        %f = tile.cast %v4 : (index) -> f32
        simt.store %f, %m[%t] : f32, memref<64xf32, "workgroup">, index
        simt.barrier
        %v = simt.load %m[%t] : memref<64xf32, "workgroup">, index -> f32
        simt.barrier
      }}"""
    start = time.process_time()
    run(kernel(body), whole(1), np.zeros(64, F32))
    assert time.process_time() - start < 2
