"""A product that went the whole way: a program on tiles, threads, LLVM IR, PTX."""

import functools

from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from lamina.dialects import simt
from lamina.passes.choose_layouts import ChooseLayoutsPass
from lamina.passes.lower_tiles import LowerTilesPass
from lamina.targets.cuda.nvvm import emit_kernel
from lamina.targets.cuda.printer import NodeTable
from lamina.targets.cuda.ptx import to_ptx
from lamina.testing.kernels import context

DEPTH, COLUMNS, ROWS, THREADS = 96, 32, 32, 64

TILES = """
tile.kernel @product attributes {symbols = ["n", "workers"], grid = ["ceildiv(n, 32)"],
                                 access = ["read", "read", "write"]} {
^bb0(%x: memref<?x96xf16>, %w: memref<96x32xf16>, %y: memref<?x32xf32>, %n: index, %workers: index):
  %zero = arith.constant 0 : index
  %rows = arith.constant 32 : index
  %step = arith.constant 16 : index
  %depth = arith.constant 96 : index
  %none = arith.constant dense<0.0> : vector<32x32xf32>
  %p = tile.program_id {dim = 0 : i64}
  %first = arith.muli %p, %rows : index
  %sum = scf.for %k = %zero to %depth step %step iter_args(%acc = %none) -> (vector<32x32xf32>) {
    %a = tile.load %x[%first, %k] {shape = array<i64: 32, 16>, in_bounds = array<i64: 1>}
      : memref<?x96xf16>[index, index] -> vector<32x16xf16>
    %b = tile.load %w[%k, %zero] {shape = array<i64: 16, 32>, in_bounds = array<i64: 0, 1>}
      : memref<96x32xf16>[index, index] -> vector<16x32xf16>
    %d = tile.dot %a, %b, %acc {contract = [[1 : i64, 0 : i64]]}
      : (vector<32x16xf16>, vector<16x32xf16>, vector<32x32xf32>) -> vector<32x32xf32>
    scf.yield %d : vector<32x32xf32>
  }
  tile.store %sum, %y[%first, %zero] {shape = array<i64: 32, 32>, in_bounds = array<i64: 1>, unique}
    : vector<32x32xf32>, memref<?x32xf32>[index, index]
  tile.return
}
"""


@functools.cache
def product() -> str:
    """y[n, 32] = x[n, 96] · w[96, 32] in f16 with f32 sums, by a pipeline of three stages."""
    module: ModuleOp = Parser(context(), TILES).parse_module()
    ChooseLayoutsPass(THREADS, fragments=True).apply(context(), module)
    LowerTilesPass(THREADS, 32, 49152, narrow=True, stages=3).apply(context(), module)
    kernel = module.body.block.first_op
    assert isinstance(kernel, simt.KernelOp)
    return to_ptx([emit_kernel(kernel, NodeTable()).text], "sm_80")
