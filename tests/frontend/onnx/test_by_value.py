"""Nodes whose inputs say, while the model runs, what shapes there are."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx_graphs import declared, graph_of, model_from, of

import lamina
from lamina.errors import InputError
from lamina.frontend.onnx.frontend import model_of
from lamina.frontend.onnx.model_file import open_onnx
from lamina.targets.base import Executable

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def native(graph: onnx.GraphProto, target: str = "cpu") -> Executable:
    """A graph compiled with nothing on the host."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return lamina.compile(model_of(open_onnx(model_from(graph))), target)


def integers(name: str, count: int) -> onnx.ValueInfoProto:
    return declared(name, np.zeros(count, np.int64))


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize("axes", [[0, 2], [-1, 1], [1, 0]])
def test_one_kernel_reduces_over_whichever_axes_come(target: str, axes: list[int]) -> None:
    node = of("ReduceMax", "x a", "y", keepdims=0)
    made = native(graph_of([node], [declared("x", X), integers("a", 2)], ["y"]), target)
    np.testing.assert_array_equal(made(X, np.array(axes))["y"], X.max(tuple(axes)))


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps", "expected"),
    [
        ([0, -1], [2, -(1 << 62)], [0, 2], [1, -1], X[0:2, :, ::-1]),
        ([1, 1], [1 << 62, 3], [1, 2], [1, 2], X[:, 1:, 1:3:2]),
        ([2, 0], [0, 9], [-1, 0], [1, 1], X[:, :, :0]),
    ],
)
def test_a_slice_is_where_its_inputs_say(
    starts: Any, ends: Any, axes: Any, steps: Any, expected: np.ndarray
) -> None:
    inputs = [declared("x", X), *(integers(name, 2) for name in "seat")]
    made = native(graph_of([of("Slice", "x s e a t", "y")], inputs, ["y"]))
    found = made(X, *(np.array(each) for each in (starts, ends, axes, steps)))["y"]
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize("pads", [[0, 1, 2, 1, 0, 3], [1, 2, 0, 0, 2, 0]])
def test_a_pad_is_as_wide_as_its_input_says(mode: str, pads: Sequence[int]) -> None:
    inputs = [declared("x", X), integers("p", 6)]
    made = native(graph_of([of("Pad", "x p", "y", mode=mode)], inputs, ["y"]))
    widths = list(zip(pads[:3], pads[3:], strict=True))
    found = made(X, np.array(pads))["y"]
    np.testing.assert_array_equal(found, np.pad(X, widths, mode))  # type: ignore[call-overload]


def test_what_depends_on_a_bound_extent_is_computed_natively_call_after_call() -> None:
    nodes = [
        of("Range", "zero n one", "r"),
        of("Mul", "r r", "square"),
        of("ReduceSum", "square", "total", keepdims=0),
    ]
    stored = {"zero": np.int64(0), "one": np.int64(1)}
    made = native(graph_of(nodes, [declared("n", np.int64(0))], ["square", "total"], stored))
    for n in (5, 0, 1000, 3):
        found = made(np.asarray(n))
        np.testing.assert_array_equal(found["square"], np.arange(n) ** 2)
        assert found["total"] == (np.arange(n) ** 2).sum()


def branches(then: list[onnx.NodeProto], other: list[onnx.NodeProto]) -> onnx.GraphProto:
    parts = {
        "then_branch": graph_of(then, [], ["t"]),
        "else_branch": graph_of(other, [], ["e"]),
    }
    node = helper.make_node("If", ["c"], ["y"], **parts)
    inputs = [declared("c", np.bool_(0)), declared("x", shape=["n"])]
    return graph_of([node, of("Neg", "y", "z")], inputs, ["z"], {"w": np.float32([2, 3])})


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_a_branch_is_taken_as_the_model_runs(target: str) -> None:
    made = native(branches([of("Mul", "x x", "t")], [of("Concat", "x w", "e", axis=0)]), target)
    x = np.float32([1, 2, 3])
    np.testing.assert_array_equal(made(np.array(True), x)["z"], -x * x)
    np.testing.assert_array_equal(made(np.array(False), x)["z"], [-1, -2, -3, -2, -3])


def test_only_the_branch_that_is_taken_refuses_extents() -> None:
    made = native(branches([of("Add", "x w", "t")], [of("Identity", "x", "e")]))
    x = np.float32([1, 2, 3])
    np.testing.assert_array_equal(made(np.array(False), x)["z"], -x)
    with pytest.raises(InputError, match="extent"):
        made(np.array(True), x)


def by_extent(comparison: list[onnx.NodeProto], then: str, other: str) -> onnx.GraphProto:
    """A branch that the extent of x[n, 3] along axis 0 decides, and a product of what it gives."""
    condition = [of("Shape", "x", "s", end=1), *comparison, of("Squeeze", "t", "c")]
    parts = {
        "then_branch": graph_of([of(then, "x zero", "t0")], [], ["t0"], name="then"),
        "else_branch": graph_of([of(other, "x", "e0")], [], ["e0"], name="other"),
    }
    node = helper.make_node("If", ["c"], ["y"], name="choice", **parts)
    stored = {"zero": np.int64([0]), "one": np.int64([1]), "w": np.float32([1, 2, 3])}
    inputs = [declared("x", shape=["n", 3])]
    return graph_of([*condition, node, of("MatMul", "y w", "z")], inputs, ["z"], stored)


def test_a_dimension_that_goes_where_its_extent_is_one_is_taken_to_go() -> None:
    made = native(by_extent([of("Equal", "s one", "t")], "Squeeze", "Identity"))
    np.testing.assert_array_equal(made(np.float32([[3, 4, 5]]))["z"], np.float32(26))
    with pytest.raises(InputError, match="extent 1 cannot be 2"):
        made(np.ones((2, 3), np.float32))


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_an_output_has_the_rank_that_a_squeeze_gives_it_in_each_call(target: str) -> None:
    nodes = [of("Squeeze", "x", "s"), of("Sigmoid", "s", "t"), of("Mul", "t two", "y")]
    inputs = [declared("x", shape=["n", 1, "m", 3])]
    made = native(graph_of(nodes, inputs, ["y"], {"two": np.float32(2)}), target)
    for shape in [(1, 1, 1, 3), (2, 1, 1, 3), (1, 1, 2, 3), (2, 1, 2, 3)]:
        found = made(np.zeros(shape, np.float32))["y"]
        np.testing.assert_allclose(found, np.ones(shape).squeeze())
        assert found.shape == np.zeros(shape).squeeze().shape


@pytest.mark.parametrize(
    ("comparison", "limit"),
    [
        ([of("Less", "one s", "t")], 2),
        ([of("Greater", "s one", "t")], 2),
        ([of("LessOrEqual", "s zero", "p"), of("Not", "p", "t")], 1),
        ([of("Sub", "s one", "d"), of("Cast", "d", "t", to=9)], 2),
    ],
)
def test_a_branch_is_taken_as_extents_say(comparison: list[onnx.NodeProto], limit: int) -> None:
    made = native(by_extent(comparison, "Gather", "Neg"))
    for n in (1, 2, 3):
        x = np.arange(3 * n, dtype=np.float32).reshape(n, 3)
        y = x[[0]] if n >= limit else -x
        np.testing.assert_array_equal(made(x)["z"], y @ np.float32([1, 2, 3]))


def test_elements_that_are_found_as_the_model_runs_go_on_natively() -> None:
    nodes = [of("NonZero", "x", "p"), of("Transpose", "p", "q"), of("GatherND", "x q", "y")]
    graph = graph_of(nodes, [declared("x", shape=["a", "b"])], ["y"])
    made = native(graph)
    for seed, shape in enumerate([(3, 4), (1, 1), (31, 7), (0, 2)]):
        x = np.random.default_rng(seed).integers(0, 3, shape).astype(np.float32)
        np.testing.assert_array_equal(made(x)["y"], x[x != 0])


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize(
    "x", [X % 5 == 0, np.int64([0, -7, 0, 2]), np.zeros((2, 0, 3), np.float32)]
)
def test_what_is_not_zero_is_found_in_row_major_order(target: str, x: np.ndarray) -> None:
    shape = [1 if n == 1 else f"d{i}" for i, n in enumerate(x.shape)]
    made = native(graph_of([of("NonZero", "x", "y")], [declared("x", x, shape)], ["y"]), target)
    np.testing.assert_array_equal(made(x)["y"], np.nonzero(x))


@pytest.mark.parametrize("axis", [{}, {"axis": 1}, {"axis": -2}])
def test_a_mask_that_may_be_short_picks_parts(axis: dict[str, int]) -> None:
    mask = np.array([True, False, True])
    inputs = [declared("x", shape=["a", "b"]), declared("c", mask, shape=["n"])]
    made = native(graph_of([of("Compress", "x c", "y", **axis)], inputs, ["y"]))
    x = np.arange(20, dtype=np.float32).reshape(4, 5)
    np.testing.assert_array_equal(made(x, mask)["y"], np.compress(mask, x, axis.get("axis")))


def test_a_loop_whose_end_is_computed_runs_by_its_meaning() -> None:
    body = graph_of(
        [of("Add", "v v", "w"), of("ReduceSum", "w", "s", keepdims=0), of("Less", "s most", "go")],
        [declared("i", np.int64(0)), declared("c", np.bool_(0)), declared("v", shape=["n"])],
        ["go", "w"],
    )
    loop = helper.make_node("Loop", ["", "", "x"], ["y"], body=body)
    inputs = [declared("x", shape=["n"]), declared("most", np.float32(0))]
    graph = graph_of([loop], inputs, [declared("y", shape=["n"])])
    with pytest.warns(UserWarning, match=r"onnx\.Loop"):
        made = lamina.compile(model_of(open_onnx(model_from(graph))), "cpu")
    found = made(np.float32([1, 2]), np.float32(40))["y"]
    np.testing.assert_array_equal(found, [16, 32])


def test_extents_that_meet_are_one_in_the_signature() -> None:
    inputs = [declared("x", shape=["n", 3]), declared("y", shape=["m", 3])]
    made = native(graph_of([of("Add", "x y", "z")], inputs, ["z"]))
    assert made.inputs[0].dims == made.inputs[1].dims
    with pytest.raises(InputError, match="input 'y': extent"):
        made(np.zeros((2, 3), np.float32), np.zeros((4, 3), np.float32))
