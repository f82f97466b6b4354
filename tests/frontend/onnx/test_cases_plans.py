"""Faults that other systems had with memory, aliases and fusion: the right values."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto
from onnx_graphs import declared, graph_of, model_from, of, run, saved

import lamina
from lamina.frontend.onnx.frontend import model_of
from lamina.frontend.onnx.model_file import open_onnx

pytestmark = pytest.mark.onnx

F = np.float32


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(F)


def given(nodes, x: np.ndarray, outputs, stored=None, shape=...) -> list[np.ndarray]:
    return run(model_from(graph_of(nodes, [declared("x", x, shape)], outputs, stored)), x)


ONE, PARTS = {"one": F(1)}, {"a": F(0.25), "b": F(0.125)}


def test_a_difference_of_what_reads_one_buffer() -> None:
    nodes = [of("Add", "x one", "z"), of("Sub", "x z", "y")]
    assert given(nodes, np.array([5], F), ["y"], ONE)[0].tolist() == [-1]


ALIASES = {
    "Identity": [of("Identity", "s", "l")],
    "Cast": [of("Cast", "s", "l", to=TensorProto.FLOAT)],
    "Dropout": [of("Dropout", "s", "l")],
    "Reshape": [of("Reshape", "s flat", "f"), of("Reshape", "f back", "l")],
    "Transpose": [of("Transpose", "s", "f", perm=[1, 0]), of("Transpose", "f", "l", perm=[1, 0])],
    "Squeeze": [of("Unsqueeze", "s zero", "f"), of("Squeeze", "f zero", "l")],
}


@pytest.mark.parametrize("alias", ALIASES)
def test_what_has_another_name_lives_as_long_as_that(alias: str) -> None:
    nodes = [of("Add", "x a", "s"), *ALIASES[alias], of("Add", "x b", "r"), of("Add", "l r", "y")]
    more = {"flat": np.array([-1]), "back": np.array([5, 8]), "zero": np.array([0])}
    x = numbers(5, 8)
    np.testing.assert_array_equal(
        given(nodes, x, ["y"], PARTS | more)[0], (x + F(0.25)) + (x + F(0.125))
    )


def test_views_of_one_tensor_live_side_by_side() -> None:
    nodes = [
        of("Exp", "x", "e"), of("Reshape", "e flat", "f"), of("Softmax", "e", "s", axis=1),
        of("Reshape", "s flat", "g"), of("Add", "f g", "h"), of("Reshape", "h back", "y"),
    ]  # fmt: skip
    x, more = numbers(4, 6), {"flat": np.array([-1]), "back": np.array([4, 6])}
    e = np.exp(x)
    expected = e + np.exp(e) / np.exp(e).sum(1, keepdims=True)
    np.testing.assert_allclose(given(nodes, x, ["y"], more)[0], expected, rtol=1e-5)


def test_a_batch_may_be_larger_than_the_last() -> None:
    w = numbers(8, 3, 3, 3)
    graph = graph_of(
        [of("Conv", "x w", "y", pads=[1] * 4)],
        [declared("x", shape=["n", 3, 9, 9])],
        ["y"],
        {"w": w},
    )
    made = lamina.compile(model_of(open_onnx(model_from(graph))), "cpu")
    for batch in (1, 7, 2):
        x = numbers(batch, 3, 9, 9, seed=batch)
        each = np.concatenate([made(row)["y"] for row in np.split(x, batch)])
        np.testing.assert_array_equal(made(x)["y"], each)
        assert made(x)["y"].shape == (batch, 8, 9, 9)


def test_a_value_within_a_kernel_may_be_an_output_too() -> None:
    nodes = [of("Exp", "x", "e"), of("Neg", "e", "n"), of("Tanh", "n", "y")]
    x = numbers(3, 5)
    y, e, n = given(nodes, x, ["y", "e", "n"])
    np.testing.assert_array_equal(n, -e)
    np.testing.assert_allclose(y, np.tanh(-np.exp(x)), rtol=1e-5)


def test_two_outputs_may_be_one_value() -> None:
    a, b, c = given(
        [of("Relu", "x", "a"), of("Identity", "a", "b"), of("Relu", "x", "c")],
        x := numbers(4),
        ["a", "b", "c"],
    )
    for each in (a, b, c):
        np.testing.assert_array_equal(each, np.maximum(x, 0))


def test_an_output_may_be_an_input() -> None:
    x = numbers(4)
    same, y = given([of("Relu", "x", "y")], x, ["x", "y"])
    y[:] = 9
    np.testing.assert_array_equal(same, x)


def test_an_output_may_be_a_constant() -> None:
    constant = of("Constant", "", "c", value_floats=[1.0, 2.0])
    c, w, _ = given(
        [constant, of("Relu", "x", "y")], numbers(2), ["c", "w", "y"], {"w": numbers(600)}
    )
    assert c.tolist() == [1, 2]
    np.testing.assert_array_equal(w, numbers(600))


def test_parts_are_the_same_numbers_as_the_whole() -> None:
    x, w = numbers(3, 16), numbers(16, 10, seed=1)
    whole = [of("MatMul", "x w", "m"), of("Softmax", "m", "y", axis=-1)]
    cut = [*whole, of("Slice", "y zero eight last", "p"), of("Slice", "y eight ten last", "q")]
    stored = {
        "w": w,
        "last": np.array([1]),
        "zero": np.array([0]),
        "eight": np.array([8]),
        "ten": np.array([10]),
    }
    (y,) = given(whole, x, ["y"], {"w": w})
    p, q = given(cut, x, ["p", "q"], stored)
    np.testing.assert_array_equal(np.concatenate([p, q], 1), y)


def test_a_model_compiled_three_times_gives_the_same_bytes(monkeypatch, tmp_path: Path) -> None:
    nodes, x = [of("MatMul", "x w", "m"), of("Gelu", "m", "y")], numbers(3, 16)
    found = set()
    for i in range(3):
        monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / str(i)))
        found.add(given(nodes, x, ["y"], {"w": numbers(16, 40, seed=1)})[0].tobytes())
    assert len(found) == 1


def external_model(folder: Path) -> Path:
    values = np.array([2, 3], np.int64)
    (folder / "w.bin").write_bytes(values.tobytes() + numbers(6).tobytes())
    nodes = [of("Add", "s zero", "t"), of("Reshape", "w t", "r"), of("Mul", "r x", "y")]
    model = model_from(
        graph_of(nodes, [declared("x", shape=["n", 3])], ["y"], {"zero": np.array(0)})
    )
    for name, kind, dims, offset in (("s", 7, [2], 0), ("w", 1, [6], 16)):
        tensor = TensorProto(
            name=name, data_type=kind, dims=dims, data_location=TensorProto.EXTERNAL
        )
        tensor.external_data.add(key="location", value="w.bin")
        tensor.external_data.add(key="offset", value=str(offset))
        tensor.external_data.add(key="length", value=str(4 * 6 if kind == 1 else 8 * 2))
        model.graph.initializer.append(tensor)
    return saved(model, folder)


def test_constants_are_folded_where_they_lie_in_a_file_beside(tmp_path: Path) -> None:
    made = lamina.compile(lamina.read(external_model(tmp_path)), "cpu")
    np.testing.assert_array_equal(made(np.ones((2, 3), F))["y"], numbers(6).reshape(2, 3))


def test_a_parsed_model_finds_its_data_in_the_folder_it_is_given(tmp_path: Path) -> None:
    import onnx

    proto = onnx.load(external_model(tmp_path), load_external_data=False)
    made = lamina.compile(model_of(open_onnx(proto, folder=tmp_path)), "cpu")
    np.testing.assert_array_equal(made(np.ones((2, 3), F))["y"], numbers(6).reshape(2, 3))


def test_a_parsed_model_with_its_data_within_runs(tmp_path: Path) -> None:
    import onnx

    made = lamina.compile(model_of(open_onnx(onnx.load(external_model(tmp_path)))), "cpu")
    np.testing.assert_array_equal(made(np.ones((2, 3), F))["y"], numbers(6).reshape(2, 3))


def test_rows_do_not_depend_on_their_neighbours() -> None:
    w, x = numbers(16, 24, seed=1), numbers(5, 16)
    nodes = [
        of("MatMul", "x w", "m"),
        of("LayerNormalization", "m g", "n"),
        of("Softmax", "n", "y"),
    ]
    graph = graph_of(nodes, [declared("x", shape=["n", 16])], ["y"], {"w": w, "g": np.ones(24, F)})
    made = lamina.compile(model_of(open_onnx(model_from(graph))), "cpu")
    each = np.concatenate([made(x[i : i + 1])["y"] for i in range(5)])
    np.testing.assert_array_equal(made(x)["y"], each)


def product_file(path: Path, w: np.ndarray) -> Path:
    graph = graph_of([of("MatMul", "x w", "y")], [declared("x", shape=["B", 64])], ["y"], {"w": w})
    path.write_bytes(model_from(graph).SerializeToString())
    return path


def test_packed_weights_of_a_file_are_kept_and_made_once(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    x, w = numbers(2, 64), numbers(64, 48, seed=1)
    path = product_file(tmp_path / "product.onnx", w)
    (y,) = lamina.compile(lamina.read(path), "cpu")(x).values()
    (image,) = (tmp_path / "cache" / "packed").glob("*.image")
    made = image.stat().st_mtime_ns
    (again,) = lamina.compile(lamina.read(path, defer=True), "cpu")(x).values()
    assert image.stat().st_mtime_ns == made
    np.testing.assert_array_equal(y, again)
    np.testing.assert_allclose(y, x @ w, rtol=1e-4, atol=1e-5)


def test_packed_weights_of_a_file_that_changed_are_made_anew(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    x, w = numbers(2, 64), numbers(64, 48, seed=1)
    for factor in (1, 2):
        path = product_file(tmp_path / "product.onnx", w * F(factor))
        (y,) = lamina.compile(lamina.read(path, defer=True), "cpu")(x).values()
        np.testing.assert_allclose(y, x @ w * factor, rtol=1e-4, atol=1e-5)
