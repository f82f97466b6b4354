"""Loops counted as they run, scans of batches, and shapes of which a part is known."""

import numpy as np
import pytest
from one_node import compiled
from onnx_graphs import declared, graph_of, model_from, of, run

from lamina.errors import UnsupportedError
from lamina.frontend.onnx.frontend import model_of
from lamina.frontend.onnx.model_file import open_onnx

pytestmark = [pytest.mark.onnx, pytest.mark.filterwarnings("ignore:.*by its NumPy meaning")]

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_a_loop_that_is_counted_as_it_runs_tells_the_ranks_of_what_it_gives() -> None:
    nodes = [of("Add", "s x", "t"), of("Identity", "c", "d"), of("Identity", "t", "r")]
    given = [declared("i", np.int64(0)), declared("c", np.bool_(0)), declared("s", shape=[2, 3])]
    body = graph_of(nodes, given, ["d", "t", "r"])
    loop = of("Loop", "n c0 x", "y z", body=body)
    inputs = [declared("n", np.int64(0)), declared("c0", np.bool_(0)), declared("x", X)]
    model = model_from(graph_of([loop], inputs, ["y", "z"]))
    y, z = run(model, np.int64(3), np.bool_(1), X)
    assert np.array_equal(y, 4 * X)
    assert np.array_equal(z, [2 * X, 3 * X, 4 * X])


def scanned(x: np.ndarray, **attributes: object) -> list[np.ndarray]:
    nodes = [of("Add", "s p", "t"), of("Identity", "t", "r")]
    body = graph_of(nodes, [declared("s", shape=[2]), declared("p", shape=[2])], ["t", "r"])
    scan = of("Scan", " s0 x", "y z", body=body, num_scan_inputs=1, **attributes)
    scan.input[:] = ["", "s0", "x"]
    start = np.array([[0, 0], [10, 20]], np.float32)
    inputs = [declared("s0", start), declared("x", x)]
    return run(model_from(graph_of([scan], inputs, ["y", "z"]), 8), start, x)


def test_a_scan_of_version_8_has_batches() -> None:
    x = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    y, z = scanned(x)
    expected = np.cumsum(x, 1) + np.array([[[0, 0]], [[10, 20]]])
    assert np.array_equal(z, expected)
    assert np.array_equal(y, expected[:, -1])
    assert np.array_equal(scanned(x, directions=[1])[1][:, 0], x[:, 2] + [[0, 0], [10, 20]])


def test_a_scan_of_version_8_with_lengths_is_refused() -> None:
    body = graph_of([of("Identity", "p", "r")], [declared("p", shape=[2])], ["r"])
    scan = of("Scan", "n x", "z", body=body, num_scan_inputs=1)
    inputs = [declared("n", np.zeros(2, np.int64)), declared("x", shape=[2, 3, 2])]
    with pytest.raises(UnsupportedError, match="sequence_lens"):
        run(model_from(graph_of([scan], inputs, ["z"]), 8))


@pytest.mark.parametrize("aligned", [0, 1])
def test_points_of_a_size_that_is_an_input_are_moved(aligned: int) -> None:
    theta = np.random.default_rng(0).standard_normal((2, 2, 3)).astype(np.float32)
    size = np.array([2, 1, 3, 4])
    node = of("AffineGrid", "theta size", "y", align_corners=aligned)
    inputs = [declared("theta", theta), declared("size", size)]
    (y,) = compiled(model_from(graph_of([node], inputs, ["y"]), 20))(
        theta=theta, size=size
    ).values()
    rows, columns = (
        np.linspace(-1, 1, n) if aligned else (2 * np.arange(n) + 1) / n - 1 for n in (3, 4)
    )
    points = np.stack([*np.meshgrid(columns, rows), np.ones((3, 4))], -1)
    assert np.allclose(y, np.einsum("nij,hwj->nhwi", theta, points), atol=1e-5)


@pytest.mark.parametrize("op", ["Reshape", "Expand", "ConstantOfShape"])
def test_extents_that_a_shape_is_put_together_of_are_known(op: str) -> None:
    nodes = [of("Concat", "n four", "shape", axis=0)]
    nodes += [of(op, "shape" if op == "ConstantOfShape" else "x shape", "y")]
    inputs = [declared("n", np.zeros(1, np.int64)), declared("x", shape=["a", 1])]
    graph = graph_of(nodes, inputs, ["y"], {"four": np.array([4])})
    text = str(model_of(open_onnx(model_from(graph))).module)
    assert '-> (tensor<?x4xf32, #nn.dims<["n0"]>>' in text
