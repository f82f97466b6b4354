"""What a call is told whose values do not fit its graph."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from onnx_graphs import declared, graph_of, model_from, of

import lamina
from lamina.errors import InputError
from lamina.frontend.onnx.frontend import model_of
from lamina.frontend.onnx.model_file import open_onnx

INDICES = declared("i", np.zeros(1, np.int64), ["k"])
NODES = {
    "Gather": of("Gather", "x i", "y", name="pick"),
    "GatherElements": of("GatherElements", "x i", "y", name="pick"),
    "ScatterElements": of("ScatterElements", "x i x", "y", name="pick"),
}


def compiled(node: str, target: str):
    rows = declared("x", shape=["n"])
    graph = graph_of([NODES[node]], [rows, INDICES], ["y"])
    return lamina.compile(model_of(open_onnx(model_from(graph))), target, threads=2)


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize("node", NODES)
@pytest.mark.parametrize("index", [5, -6, 1 << 40, -(1 << 62)])
def test_an_index_out_of_range_is_refused_by_node(node: str, target: str, index: int) -> None:
    made, x = compiled(node, target), np.arange(5, dtype=np.float32)
    with pytest.raises(InputError, match="pick"):
        made(x, np.array([0, 1, 2, 3, index]))
    np.testing.assert_array_equal(made(x, np.array([0, 1, 2, 3, -1]))["y"], x)


def test_an_index_out_of_range_is_refused_in_a_worker_thread_too() -> None:
    made, x = compiled("Gather", "cpu"), np.arange(50_000, dtype=np.float32)
    indices = np.zeros(50_000, np.int64)
    indices[-1] = 50_000
    with ThreadPoolExecutor(2) as pool:
        tried = [pool.submit(made, x, indices) for _ in range(4)]
    for each in tried:
        with pytest.raises(InputError, match="pick"):
            each.result()
    assert made(x, np.zeros(3, np.int64))["y"].tolist() == [0, 0, 0]


def test_a_shape_that_does_not_fit_the_elements_is_refused_by_node() -> None:
    shape = declared("s", np.zeros(2, np.int64))
    graph = graph_of(
        [of("Reshape", "x s", "y", name="fold")], [declared("x", shape=["n"]), shape], ["y"]
    )
    made = lamina.compile(model_of(open_onnx(model_from(graph))), "cpu")
    assert made(np.zeros(6, np.float32), np.array([2, 3]))["y"].shape == (2, 3)
    for wrong in ([4, 2], [-1, 4], [-2, -3], [1 << 40, 1 << 40]):
        with pytest.raises(InputError, match="fold"):
            made(np.zeros(6, np.float32), np.array(wrong))


def test_operands_that_do_not_broadcast_are_refused_by_node() -> None:
    inputs = [declared("x", shape=["n"]), declared("z", shape=["m"])]
    made = lamina.compile(
        model_of(
            open_onnx(model_from(graph_of([of("Add", "x z", "y", name="sum")], inputs, ["y"])))
        )
    )
    assert made(np.ones(3, np.float32), np.ones(3, np.float32))["y"].tolist() == [2, 2, 2]
    with pytest.raises(InputError):
        made(np.ones(3, np.float32), np.ones(4, np.float32))
