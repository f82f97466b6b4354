"""Operands of products that come as boxes of their tensors: what they give, and what goes wrong."""

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Operation
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from lamina.dialects import simt
from lamina.dialects.tile import ints
from lamina.errors import LaminaError
from lamina.passes.choose_layouts import ChooseLayoutsPass
from lamina.passes.lower_tiles import LowerTilesPass
from lamina.targets.cuda.nvvm import emit_kernel
from lamina.targets.cuda.printer import NodeTable
from lamina.targets.cuda.ptx import to_ptx
from lamina.targets.reference.simt import run_simt_kernel
from lamina.testing.kernels import context
from lamina.testing.ptx import Device, Specification
from lamina.testing.ptx.tensor_map import TensorMap

BF16 = np.dtype(ml_dtypes.bfloat16)
DEPTH, COLUMNS = 320, 128


def product(rows: int, *, across: bool) -> str:
    """Return a kernel `y = x w`; `across`, each column of w lies side by side."""
    tile, w = (
        (f"{COLUMNS}x64", f"{COLUMNS}x{DEPTH}")
        if across
        else (f"64x{COLUMNS}", f"{DEPTH}x{COLUMNS}")
    )
    sums, at = f"vector<{rows}x{COLUMNS}xf32>", "%zero, %k" if across else "%k, %zero"
    return f"""
    tile.kernel @product attributes {{symbols = ["n", "workers"], grid = ["ceildiv(n, {rows})"],
                                     access = ["read", "read", "write"]}} {{
    ^bb0(%x: memref<?x{DEPTH}xbf16>, %w: memref<{w}xbf16>, %y: memref<?x{COLUMNS}xf32>, %n: index, %workers: index):
      %zero = arith.constant 0 : index
      %rows = arith.constant {rows} : index
      %step = arith.constant 64 : index
      %depth = arith.constant {DEPTH} : index
      %none = arith.constant dense<0.0> : {sums}
      %p = tile.program_id {{dim = 0 : i64}}
      %first = arith.muli %p, %rows : index
      %sum = scf.for %k = %zero to %depth step %step iter_args(%acc = %none) -> ({sums}) {{
        %a = tile.load %x[%first, %k] {{shape = array<i64: {rows}, 64>, in_bounds = array<i64: 1>}}
          : memref<?x{DEPTH}xbf16>[index, index] -> vector<{rows}x64xbf16>
        %b = tile.load %w[{at}] {{shape = array<i64: {tile.replace("x", ", ")}>, in_bounds = array<i64: 0, 1>}}
          : memref<{w}xbf16>[index, index] -> vector<{tile}xbf16>
        %d = tile.dot %a, %b, %acc {{contract = [[1 : i64, {int(across)} : i64]]}}
          : (vector<{rows}x64xbf16>, vector<{tile}xbf16>, {sums}) -> {sums}
        scf.yield %d : {sums}
      }}
      tile.store %sum, %y[%first, %zero]
        {{shape = array<i64: {rows}, {COLUMNS}>, in_bounds = array<i64: 1>, unique}}
        : {sums}, memref<?x{COLUMNS}xf32>[index, index]
      tile.return
    }}
    """


def lowered(rows: int = 64, stages: int = 4, *, across: bool = False) -> simt.KernelOp:
    module: ModuleOp = Parser(context(), product(rows, across=across)).parse_module()
    threads = 2 * rows
    ChooseLayoutsPass(threads, True, True).apply(context(), module)
    LowerTilesPass(threads, 32, 1 << 18, True, stages, True).apply(context(), module)
    module.verify()
    kernel = module.body.block.first_op
    assert isinstance(kernel, simt.KernelOp)
    assert any(isinstance(op, simt.CopyTensorOp) for op in kernel.walk())
    return kernel


def operands(rows: int, *, across: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(rows)
    x, w = (rng.standard_normal(s).astype(BF16) for s in ((rows, DEPTH), (DEPTH, COLUMNS)))
    y = np.zeros((rows, COLUMNS), np.float32)
    return x, np.ascontiguousarray(w.T) if across else w, y, x.astype(float) @ w.astype(float)


FORMS = [(64, 2, False), (64, 3, True), (64, 4, False), (128, 4, True)]


@pytest.mark.parametrize(("rows", "stages", "across"), FORMS)
def test_boxes_give_the_sums_of_numpy(rows: int, stages: int, across: bool) -> None:
    x, w, y, expected = operands(70, across=across)
    run_simt_kernel(lowered(rows, stages, across=across), [x, w, y], {"n": 70})
    assert np.allclose(y, expected, rtol=0, atol=1e-3)


@pytest.mark.parametrize(("rows", "stages", "across"), FORMS)
def test_ptx_copies_boxes_that_tensor_maps_describe(rows: int, stages: int, across: bool) -> None:
    x, w, y, expected = operands(70, across=across)
    code = emit_kernel(lowered(rows, stages, across=across), NodeTable())
    ptx, device = to_ptx([code.text], "sm_90a"), Device(Specification((9, 0)))
    kernel = device.load(ptx).kernel("product")
    kernel.shared_limit = 227 << 10
    places = [device.put(each) for each in (x, w, y, np.zeros(1, np.int32))]
    described = [
        TensorMap(2, places[n], array.shape[::-1], (2 * array.shape[1],), code.maps[n].box[::-1], 8)
        for n, array in enumerate((x, w))
    ]
    arguments = [*places[:3], 70, 70, 70, 2, places[3], *(each.encode() for each in described)]
    device.launch(kernel, (-(-70 // rows),), (2 * rows,), arguments, code.shared_bytes)
    assert np.allclose(device.get(places[2], y.dtype, y.shape), expected, rtol=0, atol=1e-3)


def in_loop(kernel: simt.KernelOp, kind: type) -> list[Operation]:
    return [op for op in kernel.walk() if isinstance(op, kind) and op.parent_op() is not kernel]


def drop(kernel: simt.KernelOp, kind: type) -> None:
    for op in in_loop(kernel, kind):
        for y in op.results:
            y.replace_all_uses_with(op.operands[0])
        op.detach()


def expect(bytes: int) -> Callable[[simt.KernelOp], None]:
    def change(kernel: simt.KernelOp) -> None:
        for op in kernel.walk():
            if isinstance(op, simt.MbarrierArriveOp):
                op.bytes = IntegerAttr(op.bytes.value.data + bytes, 64)

    return change


def wait_for_the_other(kernel: simt.KernelOp) -> None:
    for op in in_loop(kernel, simt.MbarrierWaitOp):
        one = arith.ConstantOp(IntegerAttr.from_index_int_value(1))
        other = arith.SubiOp(one.result, op.operands[2])
        assert op.parent is not None
        op.parent.insert_ops_before([one, other], op)
        op.operands[2] = other.result


def come_early(kernel: simt.KernelOp) -> None:
    (op,) = in_loop(kernel, simt.WarpgroupWaitOp)
    assert isinstance(op, simt.WarpgroupWaitOp)
    op.pending = IntegerAttr(3, 64)


BROKEN: dict[str, tuple[Callable[[simt.KernelOp], None], str]] = {
    "too few bytes are expected": (expect(-128), "wait for ever: -128 bytes are missing"),
    "too many bytes are expected": (expect(16), "wait for ever: 16 bytes are missing"),
    "nobody arrives": (
        lambda kernel: drop(kernel, simt.MbarrierArriveOp),
        "the first thread did not arrive",
    ),
    "no wait for a box": (
        lambda kernel: drop(kernel, simt.MbarrierWaitOp),
        "arrives twice in a phase|somebody wrote|wait for ever",
    ),
    "wait for the other phase": (wait_for_the_other, "arrives twice in a phase"),
    "no barrier": (lambda kernel: drop(kernel, simt.BarrierOp), "no barrier is between"),
    "no wait for a product": (come_early, "an operand was written before"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_pipeline_of_boxes_that_is_broken_is_caught(name: str) -> None:
    change, said = BROKEN[name]
    change(kernel := lowered())
    x, w, y, _ = operands(64, across=False)
    with pytest.raises(LaminaError, match=said):
        run_simt_kernel(kernel, [x, w, y], {"n": 64})


def test_a_swizzle_that_only_one_side_has_gives_other_sums() -> None:
    for op in (kernel := lowered()).walk():
        if isinstance(op, simt.WarpgroupMultiplyOp):
            del op.properties["swizzled"]
            op.a_steps, op.b_steps = ints((512, 64)), ints((512, 64))
    x, w, y, expected = operands(64, across=False)
    run_simt_kernel(kernel, [x, w, y], {"n": 64})
    assert not np.allclose(y, expected, atol=1e-3)


def test_sums_may_not_be_used_before_they_are_waited_for() -> None:
    drop(kernel := lowered(), simt.WarpgroupWaitOp)
    (wait,) = [op for op in kernel.walk() if isinstance(op, simt.WarpgroupWaitOp)]
    loop_sums = wait.c
    wait.y.replace_all_uses_with(loop_sums)
    (product_op,) = [op for op in kernel.walk() if isinstance(op, simt.WarpgroupMultiplyOp)]
    store = next(use.operation for use in loop_sums.uses if use.operation is not wait)
    store.operands[0] = product_op.y
    with pytest.raises(VerifyException, match="before they are waited for"):
        product_op.verify_()


def copy(**changed: object) -> simt.CopyTensorOp:
    """A copy that is right but for what is changed."""
    (op, *_) = [op for op in lowered().walk() if isinstance(op, simt.CopyTensorOp)]
    for name, value in changed.items():
        setattr(op, name, value)
    return op


@pytest.mark.parametrize(
    ("box", "said"),
    [((64,), "a box of"), ((300, 64), "a box of"), ((64, 32), "rows of 32 elements")],
)
def test_a_box_that_no_copy_brings_is_refused(box: tuple[int, ...], said: str) -> None:
    with pytest.raises(VerifyException, match=said):
        copy(box=ints(box)).verify_()
