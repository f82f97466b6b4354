"""Products on matrix units: every way of bringing operands there gives the same sums."""

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from lamina.dialects import simt
from lamina.errors import LaminaError
from lamina.passes.choose_layouts import ChooseLayoutsPass
from lamina.passes.lower_tiles import LowerTilesPass
from lamina.targets.cuda.nvvm import emit_kernel
from lamina.targets.cuda.printer import NodeTable
from lamina.targets.cuda.ptx import to_ptx
from lamina.targets.reference.numerics import tf32
from lamina.targets.reference.simt import run_simt_kernel
from lamina.testing.kernels import context
from lamina.testing.ptx import Device, Specification

COLUMNS = 32
KINDS = {
    "bf16": (np.dtype(ml_dtypes.bfloat16), 16),
    "f16": (np.dtype(np.float16), 16),
    "f32": (np.dtype(np.float32), 16),
    "i8": (np.dtype(np.int8), 32),
}
WAYS = {
    "registers": {},
    "shared": {"narrow": True},
    "two-stages": {"narrow": True, "stages": 2},
    "three-stages": {"narrow": True, "stages": 3},
}


def product(kind: str, depth: int, *, across: bool, rows: int = 32) -> str:
    """Return a kernel `y = x w` of 32 columns; `across`, each column of w lies side by side."""
    step = KINDS[kind][1]
    sums = "i32" if kind == "i8" else "f32"
    none = "0" if kind == "i8" else "0.0"
    w, tile, at = f"{depth}x{COLUMNS}", f"{step}x{COLUMNS}", "%k, %zero"
    if across:
        w, tile, at = f"{COLUMNS}x{depth}", f"{COLUMNS}x{step}", "%zero, %k"
    return f"""
    tile.kernel @product attributes {{symbols = ["n", "workers"], grid = ["ceildiv(n, {rows})"],
                                     access = ["read", "read", "write"]}} {{
    ^bb0(%x: memref<?x{depth}x{kind}>, %w: memref<{w}x{kind}>, %y: memref<?x{COLUMNS}x{sums}>,
         %n: index, %workers: index):
      %zero = arith.constant 0 : index
      %rows = arith.constant {rows} : index
      %step = arith.constant {step} : index
      %depth = arith.constant {depth} : index
      %none = arith.constant dense<{none}> : vector<{rows}x{COLUMNS}x{sums}>
      %p = tile.program_id {{dim = 0 : i64}}
      %first = arith.muli %p, %rows : index
      %sum = scf.for %k = %zero to %depth step %step iter_args(%acc = %none)
          -> (vector<{rows}x{COLUMNS}x{sums}>) {{
        %a = tile.load %x[%first, %k] {{shape = array<i64: {rows}, {step}>, in_bounds = array<i64: 1>}}
          : memref<?x{depth}x{kind}>[index, index] -> vector<{rows}x{step}x{kind}>
        %b = tile.load %w[{at}] {{shape = array<i64: {tile.replace("x", ", ")}>,
                                  in_bounds = array<i64: 0, 1>}}
          : memref<{w}x{kind}>[index, index] -> vector<{tile}x{kind}>
        %d = tile.dot %a, %b, %acc {{contract = [[1 : i64, {int(across)} : i64]]}}
          : (vector<{rows}x{step}x{kind}>, vector<{tile}x{kind}>, vector<{rows}x{COLUMNS}x{sums}>)
          -> vector<{rows}x{COLUMNS}x{sums}>
        scf.yield %d : vector<{rows}x{COLUMNS}x{sums}>
      }}
      tile.store %sum, %y[%first, %zero]
        {{shape = array<i64: {rows}, {COLUMNS}>, in_bounds = array<i64: 1>, unique}}
        : vector<{rows}x{COLUMNS}x{sums}>, memref<?x{COLUMNS}x{sums}>[index, index]
      tile.return
    }}
    """


def lowered(
    text: str, threads: int = 64, *, warpgroups: bool = False, **options: int
) -> simt.KernelOp:
    module: ModuleOp = Parser(context(), text).parse_module()
    ChooseLayoutsPass(threads, True, warpgroups, tf32=True).apply(context(), module)
    LowerTilesPass(threads, 32, 49152, **options).apply(context(), module)
    module.verify()
    kernel = module.body.block.first_op
    assert isinstance(kernel, simt.KernelOp)
    return kernel


def operands(kind: str, rows: int, depth: int, *, across: bool):
    rng, dtype = np.random.default_rng(rows), KINDS[kind][0]
    if kind == "i8":
        x, w = (rng.integers(-128, 128, s).astype(dtype) for s in ((rows, depth), (depth, COLUMNS)))
    else:
        x, w = (rng.standard_normal(s).astype(dtype) for s in ((rows, depth), (depth, COLUMNS)))
    y = np.zeros((rows, COLUMNS), np.int32 if kind == "i8" else np.float32)
    right = tf32(x).astype(float) @ tf32(w) if kind == "f32" else x.astype(float) @ w.astype(float)
    return x, np.ascontiguousarray(w.T) if across else w, y, right


@pytest.mark.parametrize("across", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_sums_are_those_of_numpy(kind: str, way: str, across: bool) -> None:
    for rows, depth in ((0, 32), (1, 32), (31, 64), (70, 96)):
        kernel = lowered(product(kind, depth, across=across), **WAYS[way])
        x, w, y, expected = operands(kind, rows, depth, across=across)
        run_simt_kernel(kernel, [x, w, y], {"n": rows})
        assert np.allclose(y, expected, rtol=0, atol=1e-4), (rows, depth)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_ptx_gives_what_threads_do(kind: str, way: str) -> None:
    kernel = lowered(product(kind, 96, across=False), **WAYS[way])
    x, w, y, expected = operands(kind, 70, 96, across=False)
    device = Device()
    ptx = to_ptx([emit_kernel(kernel, NodeTable()).text], "sm_80")
    places = [device.put(each) for each in (x, w, y, np.zeros(1, np.int32))]
    entry = device.load(ptx).kernel("product")
    device.launch(entry, (3,), (64,), [*places[:3], 70, 70, 70, 2, places[3]])
    assert np.allclose(device.get(places[2], y.dtype, y.shape), expected, rtol=0, atol=1e-4)
    assert "mma.sync" in ptx


def without(kernel: simt.KernelOp, kind: type) -> simt.KernelOp:
    """Return a kernel without its operations of a kind inside loops."""
    for op in [op for op in kernel.walk() if isinstance(op, kind) and op.parent_op() is not kernel]:
        op.detach()
    return kernel


@pytest.mark.parametrize("missing", [simt.BarrierOp, simt.WaitOp], ids=["barrier", "wait"])
def test_a_pipeline_that_does_not_wait_is_caught(missing: type) -> None:
    kernel = lowered(product("f16", 96, across=False), narrow=True, stages=3)
    x, w, y, _ = operands("f16", 32, 96, across=False)
    with pytest.raises(LaminaError, match="element"):
        run_simt_kernel(without(kernel, missing), [x, w, y], {"n": 32})


@pytest.mark.parametrize("across", [False, True], ids=["rows", "columns"])
@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("kind", ["bf16", "f16"])
def test_warpgroups_give_the_same_sums(kind: str, stages: int, across: bool) -> None:
    text = product(kind, 96, across=across, rows=64)
    kernel = lowered(text, 128, warpgroups=True, narrow=True, stages=stages)
    x, w, y, expected = operands(kind, 70, 96, across=across)
    run_simt_kernel(kernel, [x, w, y], {"n": 70})
    device = Device(Specification((9, 0)))
    ptx = to_ptx([emit_kernel(kernel, NodeTable()).text], "sm_90a")
    places = [device.put(each) for each in (x, w, np.zeros_like(y), np.zeros(1, np.int32))]
    entry = device.load(ptx).kernel("product")
    device.launch(entry, (2,), (128,), [*places[:3], 70, 70, 70, 2, places[3]])
    assert "wgmma.mma_async" in ptx
    assert np.allclose(y, expected, rtol=0, atol=1e-4)
    assert np.allclose(device.get(places[2], y.dtype, y.shape), expected, rtol=0, atol=1e-4)
