"""A product whose operands come as boxes that tensor maps describe, from tiles to PTX."""

import functools

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from lamina.dialects import simt
from lamina.passes.choose_layouts import ChooseLayoutsPass
from lamina.passes.lower_tiles import LowerTilesPass
from lamina.targets.cuda.nvvm import KernelCode, emit_kernel
from lamina.targets.cuda.printer import NodeTable
from lamina.targets.cuda.ptx import to_ptx
from lamina.testing.kernels import context
from lamina.testing.ptx import Device, Specification
from lamina.testing.ptx.tensor_map import TensorMap

BF16 = np.dtype(ml_dtypes.bfloat16)
DEPTH, COLUMNS, ROWS, THREADS, STAGES = 448, 64, 128, 256, 4

TILES = f"""
tile.kernel @product attributes {{symbols = ["n", "workers"], grid = ["ceildiv(n, {ROWS})"],
                                 access = ["read", "read", "write"]}} {{
^bb0(%x: memref<?x{DEPTH}xbf16>, %w: memref<{DEPTH}x64xbf16>, %y: memref<?x64xf32>, %n: index, %workers: index):
  %zero = arith.constant 0 : index
  %rows = arith.constant {ROWS} : index
  %step = arith.constant 64 : index
  %depth = arith.constant {DEPTH} : index
  %none = arith.constant dense<0.0> : vector<128x64xf32>
  %p = tile.program_id {{dim = 0 : i64}}
  %first = arith.muli %p, %rows : index
  %sum = scf.for %k = %zero to %depth step %step iter_args(%acc = %none) -> (vector<128x64xf32>) {{
    %a = tile.load %x[%first, %k] {{shape = array<i64: 128, 64>, in_bounds = array<i64: 1>}}
      : memref<?x{DEPTH}xbf16>[index, index] -> vector<128x64xbf16>
    %b = tile.load %w[%k, %zero] {{shape = array<i64: 64, 64>, in_bounds = array<i64: 0, 1>}}
      : memref<{DEPTH}x64xbf16>[index, index] -> vector<64x64xbf16>
    %d = tile.dot %a, %b, %acc {{contract = [[1 : i64, 0 : i64]]}}
      : (vector<128x64xbf16>, vector<64x64xbf16>, vector<128x64xf32>) -> vector<128x64xf32>
    scf.yield %d : vector<128x64xf32>
  }}
  tile.store %sum, %y[%first, %zero] {{shape = array<i64: 128, 64>, in_bounds = array<i64: 1>, unique}}
    : vector<128x64xf32>, memref<?x64xf32>[index, index]
  tile.return
}}
"""


@functools.cache
def code() -> KernelCode:
    """y[n, 64] = x[n, 448] · w[448, 64] in bf16 with f32 sums, four rounds in shared memory."""
    module: ModuleOp = Parser(context(), TILES).parse_module()
    ChooseLayoutsPass(THREADS, fragments=True, warpgroups=True).apply(context(), module)
    lowering = LowerTilesPass(THREADS, 32, 1 << 17, narrow=True, stages=STAGES, boxes=True)
    lowering.apply(context(), module)
    kernel = module.body.block.first_op
    assert isinstance(kernel, simt.KernelOp)
    return emit_kernel(kernel, NodeTable())


@functools.cache
def product() -> str:
    """Its PTX."""
    return to_ptx([code().text], "sm_90a")


def right(text: str) -> bool:
    """Tell whether the product that a text makes is that of NumPy."""
    rng, n = np.random.default_rng(6), 150
    x, w = (rng.standard_normal(s).astype(BF16) for s in ((n, DEPTH), (DEPTH, COLUMNS)))
    y = np.zeros((n, COLUMNS), "f4")
    device = Device(Specification((9, 0)))
    kernel = device.load(text).kernel("product")
    kernel.shared_limit = 227 << 10
    places = [device.put(each) for each in (x, w, y, np.zeros(1, "i4"))]
    maps = [
        TensorMap(2, place, each.shape[::-1], (2 * each.shape[1],), (64, rows), 8).encode()
        for place, each, rows in zip(places, (x, w), (ROWS, 64), strict=False)
    ]
    words = [*places[:3], n, n, n, 2, places[3], *maps]
    device.launch(kernel, (2,), (THREADS,), words, code().shared_bytes)
    return np.allclose(
        device.get(places[2], "f4", y.shape), x.astype(float) @ w.astype(float), atol=1e-3
    )
