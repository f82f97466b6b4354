"""Extents that are made of others are as simple as they can be."""

import numpy as np
from one_node import compiled, run
from onnx import helper
from onnx_graphs import declared, graph_of, model_from

LAST = np.iinfo(np.int64).max


def test_what_is_left_for_a_dimension_is_seen_where_it_is_a_number() -> None:
    nodes = [
        helper.make_node("Slice", ["x", "first", "last", "axis"], ["part"]),
        helper.make_node("Reshape", ["part", "shape"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w"], ["y"]),
    ]
    numbers = {"first": [3], "last": [LAST], "axis": [1], "shape": [0, 0, -1]}
    stored = {name: np.array(each) for name, each in numbers.items()}
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((2, 7, 4, 8), (32, 5)))
    inputs = [declared("x", x, ["n", "m", 4, 8])]
    executable = compiled(model_from(graph_of(nodes, inputs, ["flat", "y"], {**stored, "w": w})))
    flat, y = executable(x).values()
    assert executable.outputs[0].dims[2] == 32
    assert np.array_equal(flat, x[:, 3:].reshape(2, 4, 32))
    assert np.allclose(y, flat @ w, atol=1e-5)


def test_a_product_may_be_one_that_never_has_rows() -> None:
    x, w = np.ones((0, 8), np.float32), np.ones((8, 64), np.float32)
    (y,) = run("MatMul", {"x": x, "w": w}, ("w",))
    assert y.shape == (0, 64)
