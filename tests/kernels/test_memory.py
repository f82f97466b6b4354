"""Loads and stores as machine code: bounds, gaps, order, and what comes between."""

import numpy as np
import pytest
from kernel_text import DTYPES, WIDTHS, numbers, parse

from lamina.targets.memory import empty
from lamina.targets.reference.kernel import run_kernel


def both(run_native, text: str, memrefs, symbols, level: str) -> None:
    """Run a kernel both ways and compare all memory, the untouched parts too."""
    kernel = parse(text)
    expected, got = [m.copy() for m in memrefs], [m.copy() for m in memrefs]
    run_kernel(kernel, expected, symbols)
    run_native(kernel, got, symbols, level)
    for n, (x, y) in enumerate(zip(got, expected, strict=True)):
        assert x.tobytes() == y.tobytes(), f"memref {n}"


COPY = """tile.kernel @k attributes {{symbols = ["i", "j", "n"], grid = ["1"], access = ["read", "write"]}} {{
^bb0(%x: memref<?x?x{kind}>, %y: memref<?x?x{kind}>, %i: index, %j: index, %n: index):
  %c0 = arith.constant 0 : index
  %v = tile.load %x[%i, %j] limit [%n] {{shape = array<i64: 3, {width}>, limit_dims = array<i64: {limited}>{load}}} : memref<?x?x{kind}> [index, index] -> vector<3x{width}x{kind}>
  tile.store %v, %y[%j, %i] limit [%n] {{shape = array<i64: 3, {width}>, limit_dims = array<i64: {limited}>{store}}} : vector<3x{width}x{kind}>, memref<?x?x{kind}> [index, index]
  tile.return
}}"""


@pytest.mark.parametrize("level", WIDTHS)
@pytest.mark.parametrize("kind", DTYPES)
def test_nothing_outside_the_bounds_is_read_or_written(kind, level, run_native):
    rng = np.random.default_rng(0)
    for width, limited in ((16, 0), (16, 1), (5, 1)):
        text = COPY.format(kind=kind, width=width, limited=limited, load="", store="")
        for i, j, n in ((0, 0, 3), (1, -2, 7), (-2, 3, 0), (5, 5, -4), (2, 1, 99), (-40, 1, 9)):
            memrefs = [numbers(rng, kind, (6, 19)), numbers(rng, kind, (9, 11))]
            both(run_native, text, memrefs, {"i": i, "j": j, "n": n}, level)


@pytest.mark.parametrize("level", WIDTHS)
@pytest.mark.parametrize("pad", ["7.5", "0xff800000", "-0.0"])
def test_what_is_missing_is_the_pad(pad, level, run_native):
    for limited in (0, 1):
        text = COPY.format(
            kind="f32", width=16, limited=limited, load=f", pad = {pad} : f32", store=""
        )
        memrefs = [numbers(np.random.default_rng(1), "f32", (4, 9)), np.zeros((40, 40), np.float32)]
        both(run_native, text, memrefs, {"i": 2, "j": 3, "n": 8}, level)


@pytest.mark.parametrize("level", WIDTHS)
@pytest.mark.parametrize("step", ["2, 1", "1, 3", "2, 2"])
def test_a_tile_may_take_every_other_element(step, level, run_native):
    steps = f", step = array<i64: {step}>"
    text = COPY.format(kind="f32", width=8, limited=1, load=steps, store=steps)
    memrefs = [numbers(np.random.default_rng(2), "f32", (7, 20)), np.zeros((9, 30), np.float32)]
    for i, j, n in ((0, 0, 18), (-1, 1, 20), (3, -2, 11)):
        both(run_native, text, memrefs, {"i": i, "j": j, "n": n}, level)


@pytest.mark.parametrize("level", WIDTHS)
def test_index_vectors_gather_and_later_duplicates_win(level, run_native):
    text = """tile.kernel @k attributes {symbols = [], grid = ["1"], access = ["read", "read", "read", "write", "update"]} {
    ^bb0(%x: memref<?x?xf32>, %r: memref<8xindex>, %q: memref<8xindex>, %y: memref<8x8xf32>, %z: memref<?x?xf32>):
      %c0 = arith.constant 0 : index
      %ri = tile.load %r[%c0] {shape = array<i64: 8>} : memref<8xindex> [index] -> vector<8xindex>
      %qi = tile.load %q[%c0] {shape = array<i64: 8>} : memref<8xindex> [index] -> vector<8xindex>
      %a = tile.load %x[%ri, %qi] {shape = array<i64: 8, 8>} : memref<?x?xf32> [vector<8xindex>, vector<8xindex>] -> vector<8x8xf32>
      tile.store %a, %y[%c0, %c0] {shape = array<i64: 8, 8>} : vector<8x8xf32>, memref<8x8xf32> [index, index]
      %b = tile.load %x[%ri, %qi] {shape = array<i64: 8, 1>, zip = array<i64: 0, 1>} : memref<?x?xf32> [vector<8xindex>, vector<8xindex>] -> vector<8xf32>
      tile.store %b, %z[%qi, %ri] {shape = array<i64: 8, 1>, zip = array<i64: 0, 1>} : vector<8xf32>, memref<?x?xf32> [vector<8xindex>, vector<8xindex>]
      tile.return
    }"""
    rng = np.random.default_rng(3)
    rows, columns = (rng.integers(-1, 4, 8).astype(np.int64) for _ in range(2))
    memrefs = [
        numbers(rng, "f32", (3, 3)),
        rows,
        columns,
        np.zeros((8, 8), np.float32),
        np.zeros((3, 3), np.float32),
    ]
    both(run_native, text, memrefs, {}, level)


@pytest.mark.parametrize("level", WIDTHS)
def test_strided_memory_is_walked_by_its_strides(level, run_native):
    kind = "memref<?x?xf32, strided<[?, ?], offset: 0>>"
    text = f"""tile.kernel @k attributes {{symbols = [], grid = ["1"], access = ["read", "write"]}} {{
    ^bb0(%x: {kind}, %y: {kind}):
      %c0 = arith.constant 0 : index
      %v = tile.load %x[%c0, %c0] {{shape = array<i64: 4, 16>}} : {kind} [index, index] -> vector<4x16xf32>
      tile.store %v, %y[%c0, %c0] {{shape = array<i64: 4, 16>}} : vector<4x16xf32>, {kind} [index, index]
      tile.return
    }}"""
    kernel, x = parse(text), np.random.default_rng(4).standard_normal((12, 7)).astype(np.float32)
    y = np.zeros((30, 9), np.float32)
    run_native(kernel, [x.T, y[::3, 1::2]], {}, level)
    expected = np.zeros_like(y)
    expected[::3, 1::2][:4, :4] = x.T[:4, :4]
    assert np.array_equal(y, expected)


IN_PLACE = """tile.kernel @k attributes {symbols = ["n"], grid = ["1"], access = ["read", "update"], aliases = [[0 : i64, 1 : i64]]} {
^bb0(%x: memref<48xf32>, %y: memref<48xf32>, %n: index):
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c32 = arith.constant 32 : index
  %one = arith.constant dense<1.0> : vector<16xf32>
  %a = tile.load %x[%c0] {shape = array<i64: 16>} : memref<48xf32> [index] -> vector<16xf32>
  tile.store %one, %y[%c0] {shape = array<i64: 16>} : vector<16xf32>, memref<48xf32> [index]
  %b = tile.load %x[%c16] {shape = array<i64: 16>} : memref<48xf32> [index] -> vector<16xf32>
  scf.for %i = %c0 to %n step %c1 {
    tile.store %one, %y[%c16] {shape = array<i64: 16>} : vector<16xf32>, memref<48xf32> [index]
  }
  %s = arith.subf %a, %b : vector<16xf32>
  tile.store %s, %y[%c32] {shape = array<i64: 16>} : vector<16xf32>, memref<48xf32> [index]
  tile.return
}"""


@pytest.mark.parametrize("level", WIDTHS)
@pytest.mark.parametrize("n", [0, 2])
def test_a_load_sees_memory_as_it_was_before_later_stores(n, level, run_native):
    x = np.random.default_rng(5).standard_normal(48).astype(np.float32)
    a, b, y, ones = x[:16].copy(), x[16:32].copy(), x.copy(), np.ones(16, np.float32)
    run_native(parse(IN_PLACE), [y, y], {"n": n}, level)
    assert np.array_equal(y, np.concatenate([ones, ones if n else b, a - b]))


OUTER_LEFT = """tile.kernel @k attributes {symbols = ["n"], grid = ["1"], access = ["update", "read", "write"]} {
^bb0(%a: memref<4x8xf32>, %b: memref<8x16xf32>, %y: memref<4x16xf32>, %n: index):
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant dense<0.0> : vector<4x16xf32>
  %l = tile.load %a[%c0, %c0] {shape = array<i64: 4, 8>} : memref<4x8xf32> [index, index] -> vector<4x8xf32>
  %w = tile.load %b[%c0, %c0] {shape = array<i64: 8, 16>} : memref<8x16xf32> [index, index] -> vector<8x16xf32>
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%s = %z) -> (vector<4x16xf32>) {
    %d = tile.dot %l, %w, %s {contract = [[1, 0]]} : (vector<4x8xf32>, vector<8x16xf32>, vector<4x16xf32>) -> vector<4x16xf32>
    %k = arith.addf %l, %l : vector<4x8xf32>
    tile.store %k, %a[%c0, %c0] {shape = array<i64: 4, 8>} : vector<4x8xf32>, memref<4x8xf32> [index, index]
    scf.yield %d : vector<4x16xf32>
  }
  tile.store %r, %y[%c0, %c0] {shape = array<i64: 4, 16>} : vector<4x16xf32>, memref<4x16xf32> [index, index]
  tile.return
}"""


@pytest.mark.parametrize("level", WIDTHS)
def test_a_left_operand_is_not_read_again_once_its_memory_changed(level, run_native):
    rng = np.random.default_rng(6)
    a, b = (rng.integers(-4, 5, s).astype(np.float32) for s in ((4, 8), (8, 16)))
    both(run_native, OUTER_LEFT, [a, b, np.zeros((4, 16), np.float32)], {"n": 3}, level)


HINTED = """tile.kernel @k attributes {symbols = ["n"], grid = ["n"], access = ["read", "write"]} {
^bb0(%x: memref<?x5xf32>, %y: memref<?x5xf32>, %n: index):
  %c0 = arith.constant 0 : index
  %far = arith.constant 1000000000 : index
  %i = tile.program_id {dim = 0 : i64}
  tile.prefetch %x[%far, %c0] {shape = array<i64: 2, 5>} : memref<?x5xf32> [index, index]
  %v = tile.load %x[%i, %c0] {shape = array<i64: 1, 5>} : memref<?x5xf32> [index, index] -> vector<5xf32>
  tile.store %v, %y[%i, %c0] {shape = array<i64: 1, 5>} : vector<5xf32>, memref<?x5xf32> [index, index]
  tile.return
}"""


@pytest.mark.parametrize("level", WIDTHS)
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_a_hint_may_be_wrong(rows, level, run_native):
    x = numbers(np.random.default_rng(3), "f32", (rows, 5))
    both(run_native, HINTED, [x, np.zeros_like(x)], {"n": rows}, level)


PAST = """tile.kernel @k attributes {{symbols = ["n"], grid = ["n"], access = ["read", "write"]}} {{
^bb0(%x: memref<?x{width}xf32>, %y: memref<?x{width}xf32>, %n: index):
  %c0 = arith.constant 0 : index
  %i = tile.program_id {{dim = 0 : i64}}
  %v = tile.load %x[%i, %c0] {{shape = array<i64: 1, {size}>, in_bounds = array<i64: 0>}} : memref<?x{width}xf32> [index, index] -> vector<{size}xf32>
  tile.store %v, %y[%i, %c0] {{shape = array<i64: 1, {size}>, in_bounds = array<i64: 0>, unique, nontemporal}} : vector<{size}xf32>, memref<?x{width}xf32> [index, index]
  tile.return
}}"""


@pytest.mark.parametrize("level", WIDTHS)
@pytest.mark.parametrize("rows", [0, 1, 3, 31, 1000])
def test_what_is_stored_past_the_cache_is_what_is_stored(rows, level, run_native):
    rng = np.random.default_rng(4)
    for width, size in ((16, 16), (48, 16), (33, 32), (20, 32), (1, 1)):
        kernel = parse(PAST.format(width=width, size=size))
        x, y = numbers(rng, "f32", (rows, width)), empty((rows, width), np.dtype(np.float32))
        expected = np.zeros_like(x)
        y[:] = 0
        run_kernel(kernel, [x, expected], {"n": rows})
        run_native(kernel, [x, y], {"n": rows}, level)
        assert y.tobytes() == expected.tobytes(), (width, size)
