"""Products on the matrix unit of a simdgroup, in Metal's language."""

import ml_dtypes
import numpy as np
import pytest
from shim_kernel import Shimmed, shimmed
from simt_text import parse

from lamina.dialects.simt import KernelOp
from lamina.errors import LoweringError
from lamina.targets.metal.msl import emit_kernel
from lamina.targets.reference.simt import run_simt_kernel
from lamina.targets.shading.printer import NodeTable
from lamina.testing.msl import SCHEDULES

pytestmark = pytest.mark.usefixtures("compiler")

DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "i8": np.int8}


def multiply(kind: str, sums: str = "f32", wide: int = 8) -> KernelOp:
    """Two products, one after the other, of fragments that lie as threads have them."""

    def places(name: str, size: int) -> str:
        return f"""
      %k{name} = arith.constant {size} : index
      %f{name} = arith.muli %t, %k{name} : index
      %s{name} = tile.splat %f{name} : (index) -> vector<{size}xindex>
      %i{name} = arith.constant dense<{list(range(size))}> : vector<{size}xindex>
      %at{name} = arith.addi %s{name}, %i{name} : vector<{size}xindex>"""

    def load(name: str, size: int, type: str) -> str:
        return f"""{places(name, size)}
      %v{name} = simt.load %{name}[%at{name}] {{run = 2 : i64}}
        : memref<?x{type}>, vector<{size}xindex> -> vector<{size}x{type}>"""

    a, b, c = f"vector<{wide}x{kind}>", f"vector<{wide // 2}x{kind}>", f"vector<4x{sums}>"
    return parse(f"""simt.kernel @multiply_{kind} attributes {{symbols = [], grid = ["1"],
        access = ["read", "read", "update"], threads = 64 : i64, subgroup = 32 : i64}} {{
    ^bb0(%a: memref<?x{kind}>, %b: memref<?x{kind}>, %c: memref<?x{sums}>):
      %t = simt.thread_id
      {load("a", wide, kind)}
      {load("b", wide // 2, kind)}
      {load("c", 4, sums)}
      %d = simt.multiply_accumulate %va, %vb, %vc : ({a}, {b}, {c}) -> {c}
      %e = simt.multiply_accumulate %va, %vb, %d : ({a}, {b}, {c}) -> {c}
      simt.store %e, %c[%atc] : {c}, memref<?x{sums}>, vector<4xindex>
      tile.return
    }}""")


@pytest.fixture(scope="module")
def products() -> Shimmed:
    return shimmed([multiply("f16"), multiply("bf16")])


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_matrices_are_multiplied_as_the_reference_does(products, kind, schedule):
    random = np.random.default_rng(3)
    a, b = (random.integers(-9, 9, 64 * n).astype(DTYPES[kind]) for n in (8, 4))
    c = random.integers(-9, 9, 256).astype(np.float32)
    expected, found = c.copy(), c.copy()
    run_simt_kernel(products.kernels[f"multiply_{kind}"], [a, b, expected], {})
    products.run(f"multiply_{kind}", [a, b, found], {}, schedule=schedule)
    np.testing.assert_array_equal(found, expected)


def test_integers_are_refused():
    with pytest.raises(LoweringError, match=r"matrices of floats alone .*, in simt\.multiply_acc"):
        emit_kernel(multiply("i8", "i32", 16), NodeTable())
