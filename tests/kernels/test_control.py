"""Loops and branches as machine code."""

import numpy as np
import pytest
from kernel_text import WIDTHS, parse

from lamina.errors import LoweringError
from lamina.targets.cpu.features import detect
from lamina.targets.cpu.lowering import NodeTable, emit_kernel
from lamina.targets.reference.kernel import run_kernel

HEAD = """tile.kernel @k attributes {symbols = ["n"], grid = ["1"], access = ["read", "write"]} {
^bb0(%x: memref<?xi32>, %y: memref<?xi32>, %n: index):
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = tile.load %x[%c0] {shape = array<i64: 24>} : memref<?xi32> [index] -> vector<24xi32>
"""
TAIL = """
  tile.store %r, %y[%c0] {shape = array<i64: 24>} : vector<24xi32>, memref<?xi32> [index]
  tile.return
}"""

CARRIED = """  %m = tile.compare %a, %a {kind = "ne"} : (vector<24xi32>, vector<24xi32>) -> vector<24xi1>
  %r, %t = scf.for %i = %c0 to %n step %c1 iter_args(%v = %a, %f = %m) -> (vector<24xi32>, vector<24xi1>) {
    %k = tile.cast %i : (index) -> i32
    %ks = tile.splat %k : (i32) -> vector<24xi32>
    %g = tile.compare %v, %ks {kind = "gt"} : (vector<24xi32>, vector<24xi32>) -> vector<24xi1>
    %d = arith.subi %v, %ks : vector<24xi32>
    %s = tile.select %f, %d, %v : (vector<24xi1>, vector<24xi32>, vector<24xi32>) -> vector<24xi32>
    scf.yield %s, %g : vector<24xi32>, vector<24xi1>
  }"""

BRANCH = """  %c2 = arith.constant 2 : index
  %q = arith.cmpi slt, %n, %c2 : index
  %r = scf.if %q -> (vector<24xi32>) {
    %d = arith.addi %a, %a : vector<24xi32>
    scf.yield %d : vector<24xi32>
  } else {
    %e = scf.for %i = %c0 to %n step %c1 iter_args(%v = %a) -> (vector<24xi32>) {
      %w = arith.muli %v, %a : vector<24xi32>
      scf.yield %w : vector<24xi32>
    }
    scf.yield %e : vector<24xi32>
  }"""

HALVING = """  %r, %k = scf.while (%v = %a, %i = %n) : (vector<24xi32>, index) -> (vector<24xi32>, index) {
    %go = arith.cmpi sgt, %i, %c0 : index
    scf.condition(%go) %v, %i : vector<24xi32>, index
  } do {
  ^bb1(%u: vector<24xi32>, %j: index):
    %w = arith.addi %u, %a : vector<24xi32>
    %h = arith.shrsi %j, %c1 : index
    scf.yield %w, %h : vector<24xi32>, index
  }"""


@pytest.mark.parametrize("level", WIDTHS)
@pytest.mark.parametrize("body", [CARRIED, BRANCH, HALVING], ids=["for", "if", "while"])
def test_control_flow_carries_tiles_and_masks(body, level, run_native):
    kernel = parse(HEAD + body + TAIL)
    x = np.random.default_rng(0).integers(-5, 6, 24).astype(np.int32)
    for n in (0, 1, 2, 5):
        expected, got = np.zeros(24, np.int32), np.zeros(24, np.int32)
        run_kernel(kernel, [x, expected], {"n": n})
        run_native(kernel, [x, got], {"n": n}, level)
        assert np.array_equal(got, expected), n


def test_the_first_failed_check_is_kept(run_native):
    checks = """  %z = arith.constant dense<3> : vector<24xi32>
  %lo = tile.compare %a, %z {kind = "lt"} : (vector<24xi32>, vector<24xi32>) -> vector<24xi1>
  %hi = tile.compare %z, %a {kind = "lt"} : (vector<24xi32>, vector<24xi32>) -> vector<24xi1>
  tile.check %lo {node = "first"} : vector<24xi1>
  tile.check %hi {node = "second"} : vector<24xi1>
  %r = arith.addi %a, %a : vector<24xi32>"""
    kernel, y = parse(HEAD + checks + TAIL), np.zeros(24, np.int32)
    for value, node in ((2, "second"), (3, "first"), (4, "first")):
        assert run_native(kernel, [np.full(24, value, np.int32), y], {"n": 0}) == node


def test_an_operation_without_a_rule_is_named_with_its_kernel():
    kernel = parse(
        HEAD
        + "  %f = arith.constant 1.0 : f32\n  %e = math.exp %f : f32\n  %r = arith.addi %a, %a : vector<24xi32>"
        + TAIL
    )
    with pytest.raises(LoweringError, match=r"no rule for math\.exp \(in kernel k\)"):
        emit_kernel(kernel, detect(), NodeTable())
