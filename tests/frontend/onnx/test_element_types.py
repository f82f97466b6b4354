"""Operators on element types that are seldom met give what the types mean."""

import ml_dtypes
import numpy as np
import pytest
from one_node import run
from onnx import TensorProto, helper
from onnx_graphs import graph_of, model_from, of

import lamina.onnx_backend

pytestmark = pytest.mark.onnx

WIDE = [np.int32, np.int64, np.uint32, np.uint64]


def drawn(dtype: type, *shape: int) -> np.ndarray:
    whole = np.iinfo(dtype)
    generator = np.random.default_rng(0)
    return generator.integers(whole.min, whole.max, shape, dtype, endpoint=True)


@pytest.mark.parametrize("dtype", WIDE)
def test_products_of_integers_wrap(dtype: type) -> None:
    a, b = drawn(dtype, 2, 3, 5), drawn(dtype, 5, 4)
    (y,) = run("MatMul", {"a": a, "b": b}, opset=13)
    assert np.array_equal(y, a @ b)


def test_integers_are_cut_after_alpha_and_beta() -> None:
    a, b, c = (np.arange(n, dtype=np.int64).reshape(-1, 3) for n in (6, 9, 3))
    (y,) = run("Gemm", {"a": a, "b": b, "c": c}, opset=13, alpha=0.5, beta=1.5)
    assert np.array_equal(y, np.trunc(0.5 * (a @ b)) + np.trunc(1.5 * c))


def test_integers_are_contracted() -> None:
    a, b = drawn(np.int32, 3, 4), drawn(np.int32, 4, 5)
    (y,) = run("Einsum", {"a": a, "b": b}, opset=12, equation="ij,jk->ki")
    assert np.array_equal(y, (a @ b).T)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int64])
def test_integers_shrink_by_a_bias_that_is_none(dtype: type) -> None:
    x = np.array([0, 1, 2, 5, 100], dtype)
    (y,) = run("Shrink", {"x": x}, opset=9, lambd=1.5, bias=1.5)
    assert y.tolist() == [0, 0, 0, 3, 98]


def test_logarithms_of_sums_of_integers_are_cut() -> None:
    x = np.array([[3, 5], [100, 99]], np.int64)
    inputs = {"x": x, "axes": np.array([1])}
    assert run("ReduceLogSumExp", inputs, ["axes"], opset=18)[0].tolist() == [[5], [100]]
    assert run("ReduceLogSum", inputs, ["axes"], opset=18)[0].tolist() == [[2], [5]]


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int32])
def test_a_mask_may_have_other_elements_than_scores(dtype: type) -> None:
    q, k, v = (np.random.default_rng(n).random((1, 2, 3, 4), np.float32) for n in range(3))
    mask = np.array([[0, 1, -2], [3, 0, 0], [0, -5, 1]], np.float32)
    inputs = {"q": q, "k": k, "v": v}
    (expected,) = run("Attention", inputs | {"mask": mask})
    assert np.allclose(run("Attention", inputs | {"mask": mask.astype(dtype)})[0], expected)


def cast_and_asked(op: str, dtype: type, kind: int) -> list[bool]:
    x = np.array([1, np.nan, np.inf, -np.inf], np.float32)
    value = helper.make_tensor_value_info("x", kind, [4])
    model = model_from(graph_of([of(op, "x", "y")], [value], ["y"]), 20)
    return lamina.onnx_backend.run_model(model, [x.astype(dtype)])[0].tolist()


def test_floats_of_a_byte_are_asked_for_nan_and_infinity() -> None:
    given = ml_dtypes.float8_e5m2, TensorProto.FLOAT8E5M2
    assert cast_and_asked("IsNaN", *given) == [False, True, False, False]
    assert cast_and_asked("IsInf", *given) == [False, False, True, True]


@pytest.mark.parametrize(
    ("x", "kind", "expected"),
    [
        (np.array([True, False]), TensorProto.UINT8, np.array([1, 0], np.uint8)),
        (np.array([0, 1], np.uint8), TensorProto.BOOL, np.array([False, True])),
        (np.array([-1, 7], ml_dtypes.int4), TensorProto.UINT4, np.array([15, 7], ml_dtypes.uint4)),
        (np.array([1, -2], np.float16), TensorProto.INT16, np.array([0x3C00, -0x4000], np.int16)),
    ],
)
def test_bits_are_seen_as_others(x: np.ndarray, kind: int, expected: np.ndarray) -> None:
    value = helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), [2])
    result = helper.make_tensor_value_info("y", kind, [2])
    model = model_from(graph_of([of("BitCast", "x", "y", to=kind)], [value], [result]), 26)
    (y,) = lamina.onnx_backend.run_model(model, [x])
    assert y.dtype == expected.dtype
    assert y.tolist() == expected.tolist()
