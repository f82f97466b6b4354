from typing import Any, cast

import numpy as np
import pytest
from xdsl.parser import Parser

from lamina.dialects.tile import KernelOp
from lamina.errors import InputError, LaminaError
from lamina.targets.reference.kernel import run_kernel
from lamina.testing.kernels import context

F32 = np.float32


def run(body: str, x: Any, y: Any, *, grid: str = '"1"', n: int = 0, workers: int = 2) -> Any:
    """What a kernel with this body makes of `y`, given `x` to read."""
    kinds = {np.dtype(F32): "f32", np.dtype(np.int32): "i32", np.dtype(np.int8): "i8"}
    types = ["memref<" + "?x" * a.ndim + kinds[a.dtype] + ">" for a in (x, y)]
    text = f"""tile.kernel @k attributes {{symbols = ["n", "workers"], grid = [{grid}], access = ["read", "update"]}} {{
    ^bb0(%x: {types[0]}, %y: {types[1]}, %n: index, %workers: index):
      %c0 = arith.constant 0 : index
      {body.replace("MX", types[0]).replace("MY", types[1])}
      tile.return
    }}"""
    module = Parser(context(), text).parse_module()
    module.verify()
    kernel = cast("KernelOp", module.body.block.first_op)
    run_kernel(kernel, [x, y], {"n": n}, workers)
    return y


def numbers(*shape: int) -> Any:
    return np.arange(1, 1 + np.prod(shape), dtype=F32).reshape(shape)


def blank(*shape: int) -> Any:
    return np.full(shape, -1, F32)


COPY = """
  %v = tile.load %x[{at}] {limit} {{shape = array<i64: 4>{more}}} : MX [index] -> vector<4xf32>
  tile.store %v, %y[%c0] {{shape = array<i64: 4>}} : vector<4xf32>, MY [index]"""


@pytest.mark.parametrize(
    ("start", "limit", "more", "expected"),
    [
        (0, "", "", [1, 2, 3, 0]),
        (1, "", "", [2, 3, 0, 0]),
        (-2, "", "", [0, 0, 1, 2]),
        (0, "limit [%n]", "", [1, 2, 0, 0]),
        (0, "", ", step = array<i64: 2>", [1, 3, 0, 0]),
        (2, "", ", step = array<i64: -1>", [3, 2, 1, 0]),
        (0, "", ", pad = 9.0 : f32", [1, 2, 3, 9]),
        (5, "", ", pad = 9.0 : f32", [9, 9, 9, 9]),
    ],
)
def test_a_load_pads_what_is_outside(start: int, limit: str, more: str, expected: Any) -> None:
    load = COPY.format(at="%s", limit=limit, more=more)
    body = f"%s = arith.constant {start} : index\n{load}"
    np.testing.assert_array_equal(run(body, numbers(3), blank(4), n=2), expected)


def test_a_limit_beyond_the_extent_changes_nothing() -> None:
    body = COPY.format(at="%c0", limit="limit [%n]", more="")
    np.testing.assert_array_equal(run(body, numbers(3), blank(4), n=9), [1, 2, 3, 0])


def test_a_store_drops_what_is_outside() -> None:
    body = """
      %v = tile.load %x[%c0] {shape = array<i64: 4>} : MX [index] -> vector<4xf32>
      %s = arith.constant 2 : index
      tile.store %v, %y[%s] {shape = array<i64: 4>} : vector<4xf32>, MY [index]"""
    np.testing.assert_array_equal(run(body, numbers(4), blank(4)), [-1, -1, 1, 2])


STORE_AT = """
  %v = tile.load %x[%c0] {{shape = array<i64: 4>}} : MX [index] -> vector<4xf32>
  %i = arith.constant dense<{rows}> : vector<4xindex>
  tile.store %v, %y[%i] {{shape = array<i64: 4>{more}}} : vector<4xf32>, MY [vector<4xindex>]"""


def test_of_two_elements_at_one_place_the_later_stays() -> None:
    body = STORE_AT.format(rows=[1, 0, 1, -1], more="")
    np.testing.assert_array_equal(run(body, numbers(4), blank(3)), [2, 3, -1])


def test_a_store_that_is_not_unique_after_all_is_an_error() -> None:
    body = STORE_AT.format(rows=[1, 0, 1, -1], more=", unique")
    with pytest.raises(LaminaError, match="is said to be unique"):
        run(body, numbers(4), blank(3))


def test_elements_outside_do_not_count_against_uniqueness() -> None:
    body = STORE_AT.format(rows=[-1, 0, 7, -1], more=", unique")
    np.testing.assert_array_equal(run(body, numbers(4), blank(3)), [2, -1, -1])


def test_a_place_outside_of_what_is_said_to_be_in_bounds_is_an_error() -> None:
    body = COPY.format(at="%c0", limit="", more=", in_bounds = array<i64: 0>")
    with pytest.raises(LaminaError, match=r"tile.load .*: dimension 0 .* 3 is outside of \[0, 3\)"):
        run(body, numbers(3), blank(4))


def test_memory_that_is_to_be_read_cannot_be_written() -> None:
    body = """
      %v = tile.load %y[%c0] {shape = array<i64: 4>} : MY [index] -> vector<4xf32>
      tile.store %v, %x[%c0] {shape = array<i64: 4>} : vector<4xf32>, MX [index]"""
    with pytest.raises(LaminaError, match="whose access is read"):
        run(body, numbers(4), blank(4))


def test_a_strided_view_is_read_and_written_as_it_is() -> None:
    body = COPY.format(at="%c0", limit="", more="")
    y = blank(8)
    run(body, numbers(8)[::2], y[::2])
    np.testing.assert_array_equal(y, [1, -1, 3, -1, 5, -1, 7, -1])


def test_zipped_subscripts_advance_together() -> None:
    body = """
      %i = arith.constant dense<[2, 0, 1]> : vector<3xindex>
      %j = arith.constant dense<[0, 1, 5]> : vector<3xindex>
      %v = tile.load %x[%i, %j] {shape = array<i64: 3, 1>, zip = array<i64: 0, 1>} : MX [vector<3xindex>, vector<3xindex>] -> vector<3xf32>
      tile.store %v, %y[%c0] {shape = array<i64: 3>} : vector<3xf32>, MY [index]"""
    np.testing.assert_array_equal(run(body, numbers(3, 3), blank(3)), [7, 2, 0])


def test_scratch_holds_poison_until_it_is_written() -> None:
    body = """
      %s = tile.scratch : memref<4xf32>
      %v = tile.load %s[%c0] {shape = array<i64: 4>} : memref<4xf32> [index] -> vector<4xf32>
      tile.store %v, %y[%c0] {shape = array<i64: 4>} : vector<4xf32>, MY [index]"""
    assert np.isnan(run(body, numbers(1), blank(4))).all()


def test_a_dot_keeps_batch_dimensions_and_contracts_in_row_order() -> None:
    body = """
      %a = tile.load %x[%c0, %c0, %c0] {shape = array<i64: 2, 3, 4>} : MX [index, index, index] -> vector<2x3x4xf32>
      %z = arith.constant dense<1.0> : vector<2x3x3xf32>
      %d = tile.dot %a, %a, %z {contract = [[2, 2]], batch = [[0, 0]]} : (vector<2x3x4xf32>, vector<2x3x4xf32>, vector<2x3x3xf32>) -> vector<2x3x3xf32>
      tile.store %d, %y[%c0, %c0, %c0] {shape = array<i64: 2, 3, 3>} : vector<2x3x3xf32>, MY [index, index, index]"""
    x = numbers(2, 3, 4)
    expected = np.einsum("bik,bjk->bij", x, x) + 1
    np.testing.assert_array_equal(run(body, x, blank(2, 3, 3)), expected)


def test_a_dot_rounds_once_a_step() -> None:
    body = """
      %a = tile.load %x[%c0, %c0] {shape = array<i64: 1, 3>} : MX [index, index] -> vector<1x3xf32>
      %z = arith.constant dense<0.0> : vector<1x1xf32>
      %d = tile.dot %a, %a, %z {contract = [[1, 1]]} : (vector<1x3xf32>, vector<1x3xf32>, vector<1x1xf32>) -> vector<1x1xf32>
      tile.store %d, %y[%c0] {shape = array<i64: 1>} : vector<1x1xf32>, MY [index]"""
    x = np.array([[1, 2.0**-12, 2.0**-12]], F32)
    assert run(body, x, blank(1))[0] == 1
    assert run(body, x[:, ::-1].copy(), blank(1))[0] == F32(1 + 2.0**-23)


def test_bytes_are_multiplied_signed_or_not_and_summed_in_32_bits() -> None:
    body = """
      %a = tile.load %x[%c0, %c0] {shape = array<i64: 1, 4>} : MX [index, index] -> vector<1x4xi8>
      %z = arith.constant dense<2147483647> : vector<1x1xi32>
      %d = tile.dot %a, %a, %z {contract = [[1, 1]], unsigned = array<i64: 1, 0>} : (vector<1x4xi8>, vector<1x4xi8>, vector<1x1xi32>) -> vector<1x1xi32>
      tile.store %d, %y[%c0] {shape = array<i64: 1>} : vector<1x1xi32>, MY [index]"""
    x = np.array([[-1, 1, 2, 0]], np.int8)
    wrapped = 2147483647 - 255 + 1 + 4
    assert run(body, x, np.zeros(1, np.int32))[0] == wrapped


REDUCE = """
  %v = tile.load %x[%c0] {{shape = array<i64: 5>}} : MX [index] -> vector<5xf32>
  %r, %p = tile.reduce %v {{kind = "{kind}", dims = array<i64: 0>}} : (vector<5xf32>) -> (f32, i32)
  %f = tile.cast %p : (i32) -> f32
  tile.store %r, %y[%c0] {{shape = array<i64: 1>}} : f32, MY [index]
  %c1 = arith.constant 1 : index
  tile.store %f, %y[%c1] {{shape = array<i64: 1>}} : f32, MY [index]"""


@pytest.mark.parametrize(
    ("kind", "x", "value", "place"),
    [
        ("argmax", [1, 3, 2, 3, 0], 3, 1),
        ("argmin", [1, 0, 2, 0, 5], 0, 1),
        ("argmax", [1, np.nan, 9, np.nan, 0], np.nan, 1),
        ("argmin", [1, 0, np.nan, 0, 5], np.nan, 2),
    ],
)
def test_an_argmax_is_the_lowest_place_and_the_first_nan(
    kind: str, x: list[float], value: float, place: int
) -> None:
    found = run(REDUCE.format(kind=kind), np.array(x, F32), blank(2))
    np.testing.assert_array_equal(found, [value, place])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("add", [3, 4, 9]), ("mul", [3, 3, 15]), ("max", [3, 3, 5]), ("min", [3, 1, 1])],
)
def test_a_scan_is_a_running_reduction(kind: str, expected: list[float]) -> None:
    body = f"""
      %v = tile.load %x[%c0] {{shape = array<i64: 3>}} : MX [index] -> vector<3xf32>
      %s = tile.scan %v {{kind = "{kind}", dim = 0 : i64}} : (vector<3xf32>) -> vector<3xf32>
      tile.store %s, %y[%c0] {{shape = array<i64: 3>}} : vector<3xf32>, MY [index]"""
    np.testing.assert_array_equal(run(body, np.array([3, 1, 5], F32), blank(3)), expected)


def test_the_first_check_that_fails_is_named() -> None:
    body = """
      %p = tile.program_id {dim = 0 : i64}
      %one = arith.constant 1 : index
      %good = arith.cmpi ult, %p, %one : index
      tile.check %good {node = "/first"} : i1
      %bad = arith.cmpi ult, %one, %one : index
      tile.check %bad {node = "/second"} : i1
      %v = arith.constant 5.0 : f32
      tile.store %v, %y[%p] {shape = array<i64: 1>} : f32, MY [index]"""
    y = blank(2)
    with pytest.raises(InputError, match="/second: a value of the input is out of range"):
        run(body, numbers(1), y, grid='"2"')
    np.testing.assert_array_equal(y, [5, 5])


def test_a_grid_is_made_of_symbols_and_workers() -> None:
    body = """
      %p = tile.program_id {dim = 0 : i64}
      %q = tile.program_id {dim = 1 : i64}
      %v = arith.constant 5.0 : f32
      tile.store %v, %y[%p, %q] {shape = array<i64: 1, 1>} : f32, MY [index, index]"""
    y = run(body, numbers(1), blank(4, 4), grid='"ceildiv(n, 2)", "workers"', n=3, workers=3)
    assert (y == 5).sum() == 6
    assert (y[:2, :3] == 5).all()


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (numbers(3, 3), "argument 0 of kernel @k is memref<.xf32>, got float32 of shape"),
        (np.zeros(3, np.float64), "got float64"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(x: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        run_kernel(_kernel(), [x], {})


def test_a_symbol_without_a_value_is_named() -> None:
    with pytest.raises(InputError, match="kernel @k: the symbol 'n' has no value"):
        run_kernel(_kernel('"n"'), [numbers(3)], {})


def _kernel(symbols: str = "") -> KernelOp:
    index = ", %n: index" if symbols else ""
    text = f"""tile.kernel @k attributes {{symbols = [{symbols}], grid = [{symbols or '"1"'}], access = ["read"]}} {{
    ^bb0(%x: memref<?xf32>{index}):
      tile.return
    }}"""
    return cast("KernelOp", Parser(context(), text).parse_module().body.block.first_op)
