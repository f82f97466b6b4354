from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from lamina.dialects.text import parse_module
from lamina.errors import InputError, LoweringError
from lamina.frontend.model import Weight, Weights
from lamina.plugins import manager
from lamina.targets.reference.prepare import prepare
from lamina.targets.reference.target import ReferenceTarget
from lamina.targets.signature import signature_of

F32 = np.float32
T = 'tensor<?xf32, #nn.dims<["T"]>>'
BT, ARENA = f"!plan.buffer<{T}>", '!plan.buffer<tensor<?xi8, #nn.dims<["8*T"]>>>'
ONE = "!plan.buffer<tensor<1xi32>>"

SCALE = """tile.kernel @scale attributes {symbols = ["n0"], grid = ["ceildiv(n0, 4)"], access = ["read", "write"]} {
^bb0(%x: memref<?xf32>, %y: memref<?xf32>, %n: index):
  %p = tile.program_id {dim = 0 : i64}
  %c4 = arith.constant 4 : index
  %i = arith.muli %p, %c4 : index
  %v = tile.load %x[%i] {shape = array<i64: 4>} : memref<?xf32> [index] -> vector<4xf32>
  %w = arith.addf %v, %v : vector<4xf32>
  tile.store %w, %y[%i] {shape = array<i64: 4>} : vector<4xf32>, memref<?xf32> [index]
  tile.return
}"""
NEGATE = """nn.group @negate attributes {anchor = "elementwise"} {
^bb0(%a: tensor<?xf32, #nn.dims<["n0"]>>):
  %b = nn.neg %a : tensor<?xf32, #nn.dims<["n0"]>>
  nn.yield %b : tensor<?xf32, #nn.dims<["n0"]>>
}"""


def module(text: str) -> Any:
    return parse_module(manager.context(), text, "test")


def load(module: Any, weights: Any = MappingProxyType({})) -> Any:
    target = ReferenceTarget()
    return target.load(target.emit(manager.context(), module), weights)


def plan(body: str, arguments: str = "") -> Any:
    """An executable of a plan from %x to %y, both f32[T]."""
    text = f"""builtin.module {{
      func.func @forward(%x: {BT} {{lamina.input = "x"}}{arguments}, %y: {BT} {{lamina.output = "y"}}) {{
        {body}
        plan.return
      }}
      {SCALE}
      {NEGATE}
    }}"""
    return load(module(text))


def launch(x: str, y: str, symbol: str = "T") -> str:
    call = f'plan.call @scale(%{x}, %{y}) {{symbols = ["{symbol}"]}} : {BT}, {BT}'
    return f"plan.launch {{ {call} }}"


X = np.arange(1, 7, dtype=F32)


def test_launches_see_what_earlier_ones_wrote() -> None:
    body = f"%a = plan.alloc : {BT}\n {launch('x', 'a')}\n {launch('a', 'y')}"
    np.testing.assert_array_equal(plan(body)(X)["y"], 4 * X)


def test_views_of_the_arena_hold_their_bytes_apart() -> None:
    body = f"""
      %arena = plan.arena : {ARENA}
      %a = plan.view %arena {{offset = "0"}} : {ARENA} to {BT}
      %b = plan.view %arena {{offset = "4*T"}} : {ARENA} to {BT}
      {launch("x", "a")} {launch("a", "b")} {launch("a", "y")}"""
    np.testing.assert_array_equal(plan(body)(X)["y"], 4 * X)


def test_a_view_beyond_its_buffer_is_an_error() -> None:
    body = f"""
      %arena = plan.arena : {ARENA}
      %a = plan.view %arena {{offset = "4*T + 4"}} : {ARENA} to {BT}"""
    with pytest.raises(LoweringError, match=r"plan\.view of bytes 28 to 52 of a buffer of 48"):
        plan(body)(X)


def test_memory_that_no_kernel_wrote_is_poison() -> None:
    assert np.isnan(plan("")(X)["y"]).all()


def test_a_switch_runs_one_branch() -> None:
    short, long = (
        launch("x", "y"),
        f"%a = plan.alloc : {BT}\n {launch('x', 'a')} {launch('a', 'y')}",
    )
    body = f'plan.switch attributes {{value = "T", bounds = array<i64: 4>}} {{ {short} }}, {{ {long} }}'
    run = plan(body)
    np.testing.assert_array_equal(run(X[:4])["y"], 2 * X[:4])
    np.testing.assert_array_equal(run(X[:5])["y"], 4 * X[:5])


@pytest.mark.parametrize(("count", "expected"), [(2, [2, 4]), (6, 2 * X)])
def test_a_bound_symbol_is_an_extent_from_then_on(count: int, expected: Any) -> None:
    body = f'plan.bind %n {{symbols = ["N"], equal = []}} : {ONE}\n {launch("x", "y", "min(4, N)")}'
    run = plan(body, f', %n: {ONE} {{lamina.input = "n"}}')
    found = run(X, np.array([count], np.int32))["y"]
    np.testing.assert_array_equal(found[: min(count, 4)], expected[: min(count, 4)])


@pytest.mark.parametrize(
    ("count", "message"),
    [(-1, "an extent is -1, expected at least 0"), (5, "2\\*N is 10, expected T, which is 6")],
)
def test_a_bound_symbol_that_cannot_be_is_an_error_of_the_call(count: int, message: str) -> None:
    body = f'plan.bind %n {{symbols = ["N"], equal = [["2*N", "T"]]}} : {ONE}'
    run = plan(body, f', %n: {ONE} {{lamina.input = "n"}}')
    with pytest.raises(InputError, match=message):
        run(X, np.array([count], np.int32))


def test_a_host_call_runs_a_group() -> None:
    body = f'plan.host @negate(%x, %y) {{access = ["read", "write"]}} : {BT}, {BT}'
    np.testing.assert_array_equal(plan(body)(X)["y"], -X)


def test_an_input_may_be_read_only() -> None:
    run = plan(launch("x", "y"))
    frozen = X.copy()
    frozen.flags.writeable = False
    np.testing.assert_array_equal(run(frozen)["y"], 2 * X)


LINEAR = """builtin.module {
  func.func @prepare(%w: tensor<2x3xbf16> {lamina.weight = "w"}, %s: tensor<3xf32> {lamina.weight = "s"})
      -> (tensor<2x3xf32> {lamina.packed = "p.w"}, tensor<3xf32> {lamina.packed = "p.s"}) {
    %f = nn.cast %w : (tensor<2x3xbf16>) -> tensor<2x3xf32>
    %b = nn.broadcast %s {dims = array<i64: 1>} : (tensor<3xf32>) -> tensor<2x3xf32>
    %p = nn.mul %f, %b : tensor<2x3xf32>
    func.return %p, %s : tensor<2x3xf32>, tensor<3xf32>
  }
  func.func @forward(%x: tensor<?x3xf32, #nn.dims<["T"]>> {lamina.input = "x"},
      %w: tensor<2x3xf32> {lamina.packed = "p.w"})
      -> (tensor<?x2xf32, #nn.dims<["T"]>> {lamina.output = "y"}) {
    %y = nn.dot_general %x, %w {contract = [[1, 1]]} : (tensor<?x3xf32, #nn.dims<["T"]>>, tensor<2x3xf32>) -> tensor<?x2xf32, #nn.dims<["T"]>>
    func.return %y : tensor<?x2xf32, #nn.dims<["T"]>>
  }
}"""
WEIGHTS = {"w": np.ones((2, 3), ml_dtypes.bfloat16), "s": np.array([1, 2, 3], F32)}


def test_what_depends_on_weights_is_prepared_first() -> None:
    run = load(module(LINEAR), WEIGHTS)
    np.testing.assert_array_equal(run(x=np.ones((4, 3), F32))["y"], np.full((4, 2), 6, F32))


def test_prepared_values_come_one_after_another_and_release_their_sources() -> None:
    events: list[str] = []

    class Source:
        def release(self) -> None:
            events.append("release")

    stored = Weights(
        Weight(name, "bf16" if name == "w" else "f32", a.shape, a, Source())  # type: ignore[arg-type]
        for name, a in WEIGHTS.items()
    )
    for name, _ in prepare(module(LINEAR), stored):
        events.append(name)
    assert events == ["release", "p.w", "p.s", "release"]


def test_a_missing_weight_is_named() -> None:
    with pytest.raises(InputError, match="the weight 's' is missing"):
        load(module(LINEAR), {"w": WEIGHTS["w"]})


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ([], {}, "input 'x' is missing"),
        ([np.ones((1, 3), F32)] * 2, {}, "expected at most 1 inputs, got 2"),
        ([np.ones((1, 3), F32)], {"x": np.ones((1, 3), F32)}, "input 'x' is given twice"),
        ([np.ones((1, 3), F32)], {"z": np.ones(1, F32)}, "there is no input 'z': expected x"),
        ([np.ones((1, 3))], {}, "input 'x': expected float32, got float64"),
        ([np.ones((1, 4), F32)], {}, "input 'x': extent 3 cannot be 4"),
        ([np.ones(3, F32)], {}, "input 'x': expected shape"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(args: Any, kwargs: Any, message: str) -> None:
    run = load(module(LINEAR), WEIGHTS)
    with pytest.raises(InputError, match=message):
        run(*args, **kwargs)


def test_a_result_is_a_copy_that_the_caller_owns() -> None:
    text = """func.func @forward(%x: tensor<2xf32> {lamina.input = "x"}) -> (tensor<2xf32> {lamina.output = "y"}) {
      func.return %x : tensor<2xf32>
    }"""
    x = np.ones(2, F32)
    found = load(module(text))(x)["y"]
    found[:] = 5
    np.testing.assert_array_equal(x, [1, 1])


POOL = '!cache.pages<f32, "pages", 2 : i64, 4 : i64, 3 : i64, {tile} : i64>'


def writes(tile: int) -> Any:
    pool, ids = POOL.format(tile=tile), 'tensor<?xi32, #nn.dims<["T"]>>'
    x, table = 'tensor<?x2x3xf32, #nn.dims<["T"]>>', 'tensor<?x?xi32, #nn.dims<["S", "B"]>>'
    read = 'tensor<?x?x2x3xf32, #nn.dims<["T", "4*B"]>>'
    return module(f"""func.func @forward(%x: {x} {{lamina.input = "x"}}, %p: {ids} {{lamina.input = "p"}},
        %s: {ids} {{lamina.input = "s"}}, %t: {table} {{lamina.input = "t"}}, %k: {pool} {{lamina.state = "k"}})
        -> ({read} {{lamina.output = "y"}}, {pool} {{lamina.state = "k"}}) {{
      %n = cache.write %k, %x, %p, %s, %t : ({pool}, {x}, {ids}, {ids}, {table}) -> {pool}
      %y = cache.read %n, %p, %s, %t : ({pool}, {ids}, {ids}, {table}) -> {read}
      func.return %y, %n : {read}, {pool}
    }}""")


@pytest.mark.parametrize(("tile", "shape"), [(0, (5, 2, 4, 3)), (2, (5, 2, 2, 3, 2))])
def test_pages_are_written_in_place_in_either_layout(tile: int, shape: tuple[int, ...]) -> None:
    run = load(writes(tile))
    x = np.arange(18, dtype=F32).reshape(3, 2, 3)
    places = np.array([5, 6, 0], np.int32), np.array([0, 0, 1], np.int32)
    k = np.full(shape, np.nan, F32)
    y = run(x, *places, np.array([[1, 3], [2, -1]], np.int32), k=k)["y"]
    rows = k if tile == 0 else k.transpose(0, 1, 2, 4, 3).reshape(5, 2, 4, 3)
    np.testing.assert_array_equal(rows[3, :, 1], x[0])
    np.testing.assert_array_equal(rows[2, :, 0], x[2])
    assert np.isfinite(k).sum() == 18
    np.testing.assert_array_equal(y[1, 5:7], x[:2])
    assert not y[2, 1:].any()


def test_the_signature_is_read_off_any_level() -> None:
    high = signature_of(writes(0))
    assert [binding.name for binding in high.inputs] == ["x", "p", "s", "t"]
    assert [str(dim) for dim in high.states[0].dims] == ["pages", "2", "4", "3"]
    assert [str(dim) for dim in high.outputs[0].dims] == ["T", "4*B", "2", "3"]
    assert high.attributes == {"page": 4}


def test_the_facts_of_a_batch_can_be_attributes_of_the_function() -> None:
    text = f"""func.func @forward(%y: {BT} {{lamina.output = "y"}}) attributes {{cache.page = 16 : i64, cache.block = 8 : i64}} {{
      plan.return
    }}"""
    assert signature_of(module(text)).attributes == {"page": 16, "block": 8}


def test_a_module_without_forward_is_refused() -> None:
    with pytest.raises(LoweringError, match="no function @forward"):
        signature_of(module("builtin.module {}"))


def test_every_operation_of_our_dialects_is_accepted() -> None:
    ours = {
        op.name
        for factory in manager.dialects().values()
        for op in factory().operations
        if not op.name.startswith("simt.")
    }
    assert ours <= ReferenceTarget().accepts
