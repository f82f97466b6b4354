from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from lamina.dialects.text import parse_module
from lamina.errors import InputError, LoweringError
from lamina.plugins import manager
from lamina.targets.reference.interpreter import Interpreter, Program, quiet

F32 = np.float32
NAN, INF = np.nan, np.inf
T, TN = 'tensor<?xf32, #nn.dims<["T"]>>', 'tensor<?x4xf32, #nn.dims<["T"]>>'


def compute(text: str, takes: Sequence[str], gives: str, *arrays: Any) -> Any:
    """The value of `text` on operands %0, %1, …; a scalar type is that of a tensor of four."""
    kinds = [kind if "tensor" in kind else f"tensor<4x{kind}>" for kind in (*takes, gives)]
    args = ", ".join(f"%{n}: {kind}" for n, kind in enumerate(kinds[:-1]))
    typed = (
        text
        if " : tensor" in text or " : (" in text
        else f"{text} : ({', '.join(kinds[:-1])}) -> {kinds[-1]}"
    )
    source = f"""func.func @forward({args}) -> {kinds[-1]} {{
      %y = {typed}
      func.return %y : {kinds[-1]}
    }}"""
    module = parse_module(manager.context(), source, "test")
    with quiet():
        (found,) = Interpreter(Program(manager.meanings(), module)).call("forward", arrays)
    return found


def unary(op: str, *x: float) -> Any:
    return compute(f"nn.{op} %0 : tensor<4xf32>", ["f32"], "f32", np.array(x, F32))


def binary(op: str, kind: str, a: Any, b: Any) -> Any:
    dtype = {"f32": F32, "i8": np.int8, "i32": np.int32, "i1": np.bool_}[kind]
    return compute(
        f"nn.{op} %0, %1 : tensor<4x{kind}>",
        [kind] * 2,
        kind,
        np.array(a, dtype),
        np.array(b, dtype),
    )


def equal(found: Any, expected: Any) -> None:
    np.testing.assert_array_equal(found, np.array(expected, found.dtype))


@pytest.mark.parametrize(
    ("op", "kind", "a", "b", "expected"),
    [
        ("add", "i8", [127, 1, -1, 0], [1, 1, 1, 0], [-128, 2, 0, 0]),
        ("div", "i8", [-7, 7, 7, -128], [2, -2, 0, -1], [-3, -3, 0, -128]),
        ("mod", "i8", [-7, 7, 7, -128], [2, -2, 0, -1], [-1, 1, 0, 0]),
        ("mod", "f32", [-7, 7.5, 1, INF], [2, -2, 0, 1], [-1, 1.5, NAN, NAN]),
        ("div", "f32", [1, -1, 0, 1], [0, 0, 0, INF], [INF, -INF, NAN, 0]),
        ("pow", "f32", [2, -2, 0, -1], [10, 3, 0, 0.5], [1024, -8, 1, NAN]),
        ("pow", "i32", [2, -2, 3, 0], [10, 3, -1, 0], [1024, -8, 0, 1]),
        ("max", "f32", [NAN, 1, -INF, 2], [1, NAN, 0, 1], [NAN, NAN, 0, 2]),
        ("min", "f32", [NAN, 1, -INF, 2], [1, NAN, 0, 1], [NAN, NAN, -INF, 1]),
        ("shl", "i8", [1, 1, -1, 1], [7, 8, 1, -1], [-128, 0, -2, 0]),
        ("shr", "i8", [-128, -128, -1, 4], [7, 8, 1, 1], [1, 0, 127, 2]),
        ("xor", "i8", [12, 0, -1, 1], [10, 0, -1, 0], [6, 0, 0, 1]),
        ("and", "i1", [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 0]),
    ],
)
def test_two_operands_follow_the_numerics(
    op: str, kind: str, a: list[float], b: list[float], expected: list[float]
) -> None:
    equal(binary(op, kind, a, b), expected)


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("relu", [NAN, 0, 0, INF]),
        ("neg", [NAN, 0.5, INF, -INF]),
        ("abs", [NAN, 0.5, INF, INF]),
        ("round", [NAN, -0.0, -INF, INF]),
        ("floor", [NAN, -1, -INF, INF]),
        ("exp", [NAN, F32(np.exp(-0.5)), 0, INF]),
        ("sigmoid", [NAN, F32(1 / (1 + np.exp(0.5))), 0, 1]),
        ("tanh", [NAN, F32(np.tanh(-0.5)), -1, 1]),
        ("sqrt", [NAN, NAN, NAN, INF]),
    ],
)
def test_one_operand_keeps_nan_and_meets_infinity(op: str, expected: list[float]) -> None:
    equal(unary(op, NAN, -0.5, -INF, INF), expected)


def test_a_cast_to_an_integer_truncates_and_saturates() -> None:
    x = np.array([NAN, -1.9, 1e20, 126.99], F32)
    equal(compute("nn.cast %0", ["f32"], "i8", x), [0, -1, 127, 126])


def test_only_ne_holds_with_nan() -> None:
    a, b = np.array([NAN, 1, 2, NAN], F32), np.array([NAN, 1, 1, 0], F32)
    for kind, expected in {"ne": [1, 0, 1, 1], "le": [0, 1, 0, 0], "gt": [0, 0, 1, 0]}.items():
        text = f'nn.compare %0, %1 {{kind = "{kind}"}} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>'
        equal(compute(text, ["f32", "f32"], "i1", a, b), expected)


@pytest.mark.parametrize("tokens", [0, 1, 5])
def test_symbols_are_bound_by_the_arguments(tokens: int) -> None:
    found = compute(
        f"nn.broadcast %0 {{dims = array<i64: 0>}} : ({T}) -> {TN}", [T], TN, np.ones(tokens, F32)
    )
    assert found.shape == (tokens, 4)


def test_an_argument_that_contradicts_another_is_refused() -> None:
    with pytest.raises(LoweringError, match="3 elements where T is expected"):
        compute(f"nn.add %0, %1 : {T}", [T, T], T, np.ones(2, F32), np.ones(3, F32))


def test_an_extent_is_solved_for_its_symbol() -> None:
    kind = 'tensor<?xf32, #nn.dims<["2*S + 1"]>>'
    shorter = 'tensor<?xf32, #nn.dims<["S"]>>'
    text = f'nn.slice %0 {{start = ["S + 1"]}} : ({kind}) -> {shorter}'
    equal(compute(text, [kind], shorter, np.arange(7, dtype=F32)), [4, 5, 6])


@pytest.mark.parametrize(
    ("start", "step", "expected"),
    [(0, 2, [0, 2, 4]), (5, -2, [5, 3, 1]), (4, -2, [4, 2, 0]), (3, 1, [3, 4, 5])],
)
def test_a_slice_steps_either_way(start: int, step: int, expected: list[float]) -> None:
    text = f'nn.slice %0 {{start = ["{start}"], step = array<i64: {step}>}}'
    equal(compute(text, ["tensor<6xf32>"], "tensor<3xf32>", np.arange(6, dtype=F32)), expected)


def test_a_slice_outside_is_an_error_of_the_call() -> None:
    with pytest.raises(InputError, match=r"nn\.slice: a slice from 4 to 6 of 6"):
        compute('nn.slice %0 {start = ["4"]}', ["tensor<6xf32>"], "tensor<3xf32>", np.zeros(6, F32))


def test_padding_has_the_value_asked_for() -> None:
    text = "nn.pad %0 {low = array<i64: 1>, high = array<i64: 2>, value = 7.0 : f32}"
    found = compute(text, ["f32"], "tensor<7xf32>", np.arange(4, dtype=F32))
    equal(found, [7, 0, 1, 2, 3, 7, 7])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("add", 0), ("mul", 1), ("max", -INF), ("min", INF)],
)
def test_of_nothing_a_reduction_is_neutral(kind: str, expected: float) -> None:
    text = f'nn.reduce %0 {{kind = "{kind}", dims = array<i64: 0>}} : ({TN}) -> tensor<4xf32>'
    equal(compute(text, [TN], "f32", np.zeros((0, 4), F32)), [expected] * 4)


def test_argmax_of_nothing_is_0_and_of_ties_the_lowest() -> None:
    text = f'nn.reduce %0 {{kind = "argmax", dims = array<i64: 0>}} : ({TN}) -> tensor<4xi32>'
    equal(compute(text, [TN], "i32", np.zeros((0, 4), F32)), [0] * 4)
    x = np.array([[1, 0, NAN, 2], [1, 3, 9, NAN], [0, 3, NAN, 2]], F32)
    equal(compute(text, [TN], "i32", x), [0, 1, 0, 1])


@pytest.mark.parametrize(
    ("flag", "expected", "places"),
    [("", [1, 1, 3, NAN], [1, 3, 0, 2]), (", descending", [3, 1, 1, NAN], [0, 1, 3, 2])],
)
def test_a_sort_is_stable_with_nan_last(
    flag: str, expected: list[float], places: list[int]
) -> None:
    x = np.array([3, 1, NAN, 1], F32)
    pair = "(tensor<4xf32>, tensor<4xi32>)"
    source = f"""func.func @forward(%x: tensor<4xf32>) -> {pair} {{
      %y, %p = nn.sort %x {{dim = 0 : i64{flag}}} : (tensor<4xf32>) -> {pair}
      func.return %y, %p : tensor<4xf32>, tensor<4xi32>
    }}"""
    module = parse_module(manager.context(), source, "test")
    y, position = Interpreter(Program(manager.meanings(), module)).call("forward", [x])
    equal(y, expected)
    equal(position, places)


def test_a_sum_of_halves_is_rounded_once() -> None:
    text = 'nn.reduce %0 {kind = "add", dims = array<i64: 0>}'
    x = np.full(4097, 1, np.float16)
    equal(compute(text, ["tensor<4097xf16>"], "tensor<f16>", x), 4096)


def test_bytes_are_multiplied_in_32_bits() -> None:
    text = "nn.dot_general %0, %1 {contract = [[1, 1]]}"
    a = np.full((2, 512), -128, np.int8)
    kinds = ["tensor<2x512xi8>", "tensor<2x512xi8>"]
    equal(compute(text, kinds, "tensor<2x2xi32>", a, a), np.full((2, 2), 512 * 16384))


def test_a_dot_keeps_batch_then_left_then_right() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 3, 5, 4)).astype(F32), rng.standard_normal((4, 6, 2)).astype(F32)
    text = "nn.dot_general %0, %1 {contract = [[3, 0]], batch = [[0, 2]]}"
    kinds = ["tensor<2x3x5x4xf32>", "tensor<4x6x2xf32>"]
    found = compute(text, kinds, "tensor<2x3x5x6xf32>", a, b)
    np.testing.assert_allclose(found, np.einsum("bijk,knb->bijn", a, b), rtol=1e-5, atol=1e-5)


def test_an_index_outside_names_the_node() -> None:
    text = 'nn.gather %0, %1 {axis = 0 : i64, lamina.src = ["/embed"]} : (tensor<4xf32>, tensor<4xi32>) -> tensor<4xf32>'
    with pytest.raises(InputError, match=r"/embed: the index -1 is outside of \[0, 4\)"):
        compute(text, ["f32", "i32"], "f32", np.zeros(4, F32), np.array([0, -1, 4, 1], np.int32))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("set", [9, 30, 9, 10]), ("add", [9, 69, 9, 19]), ("mul", [9, 8100, 9, 90])],
)
def test_duplicates_of_a_scatter_come_in_order(kind: str, expected: list[float]) -> None:
    text = f'nn.scatter_nd %0, %1, %2 {{kind = "{kind}"}}'
    x, at = np.full(4, 9, F32), np.array([[1], [3], [1]], np.int32)
    kinds = ["f32", "tensor<3x1xi32>", "tensor<3xf32>"]
    found = compute(text, kinds, "f32", x, at, np.array([30, 10, 30], F32))
    equal(found, expected)
    equal(x, [9] * 4)


def test_lists_of_places_take_the_elements_that_they_name() -> None:
    x = np.arange(24, dtype=F32).reshape(2, 3, 4)
    at = np.array([[[2, 0], [1, 3]], [[0, 1], [2, 2]]], np.int64)
    text = "nn.gather_nd %0, %1 {batch_dims = 1 : i64}"
    kinds = ["tensor<2x3x4xf32>", "tensor<2x2x2xi64>"]
    equal(compute(text, kinds, "tensor<2x2xf32>", x, at), [[8, 7], [13, 22]])


def test_elements_are_taken_along_an_axis_from_where_the_others_are() -> None:
    x, at = np.arange(12, dtype=F32).reshape(3, 4), np.array([[2, 0, 1]], np.int32)
    text = "nn.gather_elements %0, %1 {axis = 0 : i64}"
    found = compute(text, ["tensor<3x4xf32>", "tensor<1x3xi32>"], "tensor<1x3xf32>", x, at)
    equal(found, [[8, 1, 6]])


def test_elements_are_put_along_an_axis_where_the_others_are() -> None:
    x, at = np.zeros((2, 4), np.uint8), np.array([[3, 3, 0]], np.int64)
    text = 'nn.scatter_elements %0, %1, %2 {axis = 1 : i64, kind = "add"}'
    kinds = ["tensor<2x4xui8>", "tensor<1x3xi64>", "tensor<1x3xui8>"]
    found = compute(text, kinds, "tensor<2x4xui8>", x, at, np.array([[200, 57, 5]], np.uint8))
    equal(found, [[5, 0, 0, 1], [0, 0, 0, 0]])


def test_a_grouped_dilated_convolution_is_the_sum_over_its_window() -> None:
    rng = np.random.default_rng(0)
    x, w = (
        rng.standard_normal((2, 7, 6, 4)).astype(F32),
        rng.standard_normal((6, 3, 2, 2)).astype(F32),
    )
    text = (
        "nn.conv %0, %1 {strides = array<i64: 2, 1>, pads = array<i64: 1, 2, 0, 1>,"
        " dilations = array<i64: 1, 3>, groups = 2 : i64}"
    )
    found = compute(
        text, ["tensor<2x7x6x4xf32>", "tensor<6x3x2x2xf32>"], "tensor<2x4x4x6xf32>", x, w
    )
    padded = np.pad(x, ((0, 0), (1, 2), (0, 1), (0, 0)))
    expected = np.zeros((2, 4, 4, 6))
    for n, i, j, o in np.ndindex(2, 4, 4, 6):
        window = padded[n, 2 * i : 2 * i + 3, j : j + 4 : 3, o // 3 * 2 :][..., :2]
        expected[n, i, j, o] = (window * w[o]).sum()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [('"max"', [1, 3, 3]), ('"mean"', [0.5, 2, 3]), ('"mean", include_pad', [1 / 3, 2, 1])],
)
def test_pools_know_what_is_inside(kind: str, expected: list[float]) -> None:
    text = f"nn.pool %0 {{kind = {kind}, window = array<i64: 3>, strides = array<i64: 2>, pads = array<i64: 1, 2>}}"
    found = compute(
        text, ["tensor<1x4x1xf32>"], "tensor<1x3x1xf32>", np.arange(4, dtype=F32).reshape(1, 4, 1)
    )
    np.testing.assert_allclose(found.reshape(-1), np.array(expected, F32))


def test_a_switch_takes_the_first_range_that_holds_its_extent() -> None:
    branch = "%b{n} = nn.constant {{value = {n}.0 : f32}} : {kind}\n nn.yield %b{n} : {kind}"
    branches = "}, {".join(branch.format(n=n, kind=T) for n in range(3))
    text = f'nn.switch {{value = "T", bounds = array<i64: 1, 8>}} : {T} {{{branches}}}'
    found = [compute(text, [T], T, np.zeros(n, F32))[:1] for n in (1, 2, 8, 9)]
    equal(np.concatenate(found), [0, 1, 1, 2])


def test_a_group_has_symbols_of_its_own() -> None:
    source = f"""builtin.module {{
      func.func @forward(%x: {T}, %z: tensor<?xf32, #nn.dims<["n0"]>>) -> {TN} {{
        %y = nn.call @g(%x) : ({T}) -> {TN}
        func.return %y : {TN}
      }}
      nn.group @g attributes {{anchor = "elementwise"}} {{
      ^bb0(%a: tensor<?xf32, #nn.dims<["n0"]>>):
        %b = nn.broadcast %a {{dims = array<i64: 0>}} : (tensor<?xf32, #nn.dims<["n0"]>>) -> tensor<?x4xf32, #nn.dims<["n0"]>>
        nn.yield %b : tensor<?x4xf32, #nn.dims<["n0"]>>
      }}
    }}"""
    module = parse_module(manager.context(), source, "test")
    run = Interpreter(Program(manager.meanings(), module))
    assert run.call("forward", [np.zeros(3, F32), np.zeros(7, F32)])[0].shape == (3, 4)


def test_a_value_is_forgotten_after_its_last_use() -> None:
    source = """func.func @forward(%x: tensor<4xf32>) -> tensor<4xf32> {
      %a = nn.neg %x : tensor<4xf32>
      %b = nn.neg %a : tensor<4xf32>
      func.return %b : tensor<4xf32>
    }"""
    module = parse_module(manager.context(), source, "test")
    run = Interpreter(Program(manager.meanings(), module))
    run.call("forward", [np.zeros(4, F32)])
    first = module.body.block.first_op.body.block.first_op.results[0]
    with pytest.raises(KeyError):
        run.value(first)
