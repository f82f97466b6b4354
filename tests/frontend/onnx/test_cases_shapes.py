"""Faults that other systems had with versions of operators, indices and shapes: the right values."""

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_graphs import declared, graph_of, model_from, of, run, run_node

pytestmark = pytest.mark.onnx

F = np.float32


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(F)


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x.astype(np.float64) - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def hardmax(x: np.ndarray, axis: int) -> np.ndarray:
    at = np.expand_dims(x.argmax(axis), axis)
    return (np.indices(x.shape)[axis] == at).astype(x.dtype)


FLAT = {
    "Softmax": softmax,
    "LogSoftmax": lambda x, axis: np.log(softmax(x, axis)),
    "Hardmax": hardmax,
}


@pytest.mark.parametrize("op", FLAT)
@pytest.mark.parametrize(("shape", "axis"), [((2, 3, 4), None), ((2, 3, 4, 2), 2), ((2, 3, 4), -1)])
def test_before_version_13_a_softmax_is_over_all_that_follows(op: str, shape, axis) -> None:
    x, at = numbers(*shape), 1 if axis is None else axis % len(shape)
    (y,) = run_node(op, x, opset=11, **({} if axis is None else {"axis": axis}))
    flat = FLAT[op](x.reshape(int(np.prod(shape[:at])), -1), 1)
    np.testing.assert_allclose(y, flat.reshape(shape), rtol=1e-5)


def test_a_reduction_of_version_11_takes_axes_from_its_attribute() -> None:
    x = numbers(1, 68, 4, 18)
    (y,) = run_node("ReduceMean", x, opset=11, axes=[2], keepdims=0)
    np.testing.assert_allclose(y, x.mean(2), rtol=1e-5, atol=1e-6)


def test_axes_of_extents_do_not_mean_all_axes() -> None:
    nodes = [
        of("Shape", "x", "s"),
        of("Size", "s", "rank"),
        of("Range", "one rank one", "axes"),
        of("ReduceSum", "x axes", "y", keepdims=0),
    ]
    x, stored = numbers(2, 3, 4), {"one": np.array(1)}
    graph = graph_of(nodes, [declared("x", shape=["a", "b", "c"])], ["y"], stored)
    np.testing.assert_allclose(run(model_from(graph), x)[0], x.sum((1, 2)), rtol=1e-5)


def test_axes_that_are_inputs_do_not_mean_all_axes() -> None:
    x = numbers(2, 3, 4)
    (y,) = run_node("ReduceSum", x, np.array([1]), keepdims=0)
    np.testing.assert_allclose(y, x.sum(1), rtol=1e-5)


@pytest.mark.parametrize("version", [9, 10])
@pytest.mark.parametrize("shape", [(1, 3, 1), (2, 1, 4), (2, 3, 4), (1, 1, 1)])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_scatter_goes_over_the_shape_of_its_indices(version: int, shape, axis: int) -> None:
    x, updates, chance = numbers(2, 3, 4), numbers(*shape, seed=1), np.random.default_rng(2)
    indices, expected = (
        np.argsort(chance.random((2, 3, 4)), axis)[: shape[0], : shape[1], : shape[2]],
        x.copy(),
    )
    for place in np.ndindex(*shape):
        at = list(place)
        at[axis] = indices[place]
        expected[tuple(at)] = updates[place]
    (y,) = run_node("Scatter", x, indices, updates, opset=version, axis=axis)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ((0, 5, -1), []),
        ((9, -(1 << 63), -1), [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]),
        ((1 << 62, 3, -3), [9, 6]),
        ((20, -20, -4), [9, 5, 1]),
        ((-3, (1 << 63) - 1, 1), [7, 8, 9]),
        ((5, 5, 1), []),
        ((-20, 2, 1), [0, 1]),
    ],
)
@pytest.mark.parametrize("stored", [(1, 2, 3, 4), ()])
def test_a_slice_is_clamped(bounds, expected, stored) -> None:
    start, end, step = (np.array([n]) for n in bounds)
    (y,) = run_node("Slice", np.arange(10, dtype=F), start, end, np.array([0]), step, stored=stored)
    assert y.tolist() == expected


@pytest.mark.parametrize("stored", [(1,), ()])
def test_a_gather_counts_negative_indices_from_the_end(stored) -> None:
    (y,) = run_node("Gather", np.arange(1, 6, dtype=F), np.array([-1, -3, 0]), stored=stored)
    assert y.tolist() == [5, 3, 1]


def test_pairs_of_indices_scatter_elements_of_a_matrix() -> None:
    x, updates = numbers(3, 4), np.array([10, 20, 30], F)
    (y,) = run_node("ScatterND", x, np.array([[0, 1], [2, 3], [-1, -4]]), updates)
    x[0, 1], x[2, 3], x[-1, -4] = updates
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize(
    ("reduction", "expected"), [("add", 7), ("mul", 10), ("max", 5), ("min", 1)]
)
def test_elements_scattered_to_one_place_are_all_counted(reduction: str, expected: float) -> None:
    x, updates = np.array([[1, 1, 1]], F), np.array([[1, 5]], F)
    x[0, 2] = {"mul": 2}.get(reduction, 1)
    (y,) = run_node("ScatterElements", x, np.array([[2, -1]]), updates, axis=1, reduction=reduction)
    assert y.tolist() == [[1, 1, expected]]


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [({"start": -9}, [3, 4, 5]), ({"start": 1, "end": 9}, [4, 5]), ({"end": -1}, [3, 4]),
     ({"start": 2, "end": 1}, []), ({"start": -2}, [4, 5])],
)  # fmt: skip
def test_bounds_of_a_shape_are_clamped(bounds, expected) -> None:
    (y,) = run_node("Shape", numbers(3, 4, 5), **bounds)
    assert y.tolist() == expected


@pytest.mark.filterwarnings("ignore:.*declared with another shape")
@pytest.mark.parametrize("shape", [[1, 384], ["other", 384], ["n", "bogus"], [2, 3, 4], None])
def test_what_an_output_is_declared_to_be_changes_nothing(shape) -> None:
    nodes = [
        of("Split", "x s", "a b", axis=-1),
        of("Squeeze", "a two", "y"),
        of("Squeeze", "b two", "z"),
    ]
    stored, x = {"s": np.array([1, 1]), "two": np.array([2])}, numbers(3, 384, 2)
    outputs = [declared("y", shape=shape), declared("z", shape=["unk__7", 384])]
    graph = graph_of(nodes, [declared("x", shape=["unk__6", 384, 2])], outputs, stored)
    y, z = run(model_from(graph, 13), x)
    np.testing.assert_array_equal(np.stack([y, z], -1), x)


def test_a_flattened_tensor_has_two_dimensions() -> None:
    x = numbers(3, 3, 2, 3, 2, 5)
    nodes = [of("Flatten", "x", "f", axis=0), of("ReduceSum", "f", "y", axes=[1], keepdims=0)]
    y, f = run(model_from(graph_of(nodes, [declared("x", x)], ["y", "f"]), 11), x)
    np.testing.assert_allclose(y, x.reshape(1, -1).sum(1), rtol=1e-4, atol=1e-4)
    assert f.shape == (1, 540)


def test_a_chain_of_tensors_of_no_elements_runs() -> None:
    nodes = [
        of("Concat", "a b", "c", axis=0),
        of("Cast", "c", "h", to=TensorProto.FLOAT16),
        of("Slice", "h zero five", "s"),
        of("Reshape", "s none", "y"),
    ]
    stored = {"zero": np.array([0]), "five": np.array([5]), "none": np.array([-1])}
    inputs = [declared("a", shape=["p", 0]), declared("b", shape=["q", 0])]
    graph = graph_of(nodes[:3], inputs, ["s"], stored)
    (y,) = run(model_from(graph), np.zeros((4, 0), F), np.zeros((3, 0), F))
    assert (y.shape, y.dtype) == ((5, 0), np.float16)


def test_nothing_joined_to_something_is_that() -> None:
    assert run_node("Concat", np.zeros(0, F), np.array([1, 2], F), axis=0)[0].tolist() == [1, 2]


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_a_product_of_no_rows_has_none(rows: int) -> None:
    x, w, b = numbers(rows, 1030), numbers(1030, 768, seed=1), numbers(768, seed=2)
    inputs = [declared("x", shape=["n", 1030])]
    graph = graph_of([of("Gemm", "x w b", "y")], inputs, ["y"], {"w": w, "b": b})
    (y,) = run(model_from(graph), x)
    np.testing.assert_allclose(y, x @ w + b, rtol=1e-3, atol=1e-3)


def test_a_reduction_over_some_axes_of_an_empty_tensor_has_their_shape() -> None:
    assert run_node("ReduceMax", np.zeros((0, 4), F), np.array([1]), stored=(1,), keepdims=0)[
        0
    ].shape == (0,)
    (y,) = run_node("ReduceMax", np.zeros((0, 4), F), np.array([0]), stored=(1,), keepdims=0)
    assert y.tolist() == [-np.inf] * 4
    (y,) = run_node("ReduceSum", np.zeros((0, 4), F), np.array([0]), stored=(1,), keepdims=0)
    assert y.tolist() == [0] * 4


def test_a_part_of_a_part_is_that_part() -> None:
    (y,) = run_node("Gather", np.arange(6, dtype=F).reshape(2, 3), np.array(0), stored=(1,))
    assert y.tolist() == [0, 1, 2]


def test_casts_out_of_range_saturate_and_those_of_integers_wrap() -> None:
    x = np.array([300.7, -5, np.nan, np.inf, -np.inf, 2.9, -2.9], F)
    assert run_node("Cast", x, to=TensorProto.INT8)[0].tolist() == [127, -5, 0, 127, -128, 2, -2]
    assert run_node("Cast", x, to=TensorProto.UINT8)[0].tolist() == [255, 0, 0, 255, 0, 2, 0]
    assert run_node("Cast", np.array([300, -1]), to=TensorProto.UINT8)[0].tolist() == [44, 255]
    (y,) = run_node("Cast", np.array([1.00390625, 3e38], F), to=TensorProto.BFLOAT16)
    assert y.dtype == ml_dtypes.bfloat16
    assert y.astype(F).tolist() == [1.0, float(np.float32(3e38).astype(ml_dtypes.bfloat16))]


def test_reductions_without_axes_are_noops_only_if_told_so() -> None:
    x = numbers(2, 3)
    (y,) = run_node("ReduceSum", x, None, noop_with_empty_axes=1)
    np.testing.assert_array_equal(y, x)
    np.testing.assert_allclose(run_node("ReduceSum", x, None)[0], [[x.sum()]], rtol=1e-5)


def test_a_broadcast_of_version_6_begins_at_its_axis() -> None:
    x, b = numbers(2, 3, 4), numbers(3, seed=1)
    (y,) = run_node("Add", x, b, opset=6, broadcast=1, axis=1)
    np.testing.assert_array_equal(y, x + b[:, None])


def test_a_name_may_be_a_number() -> None:
    graph = graph_of([helper.make_node("Relu", ["0"], ["1"])], [declared("0", shape=[2])], ["1"])
    assert run(model_from(graph), np.array([-1, 1], F))[0].tolist() == [0, 1]
