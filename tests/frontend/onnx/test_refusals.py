"""Files that break the format, or ask for what is not there: each refused by node and field."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx_graphs import declared, graph_of, model_from, of, saved

import lamina
from lamina.errors import FormatError, UnsupportedError

X = declared("x", shape=["n", 4])
ONE = graph_of([of("Relu", "x", "y")], [X], ["y"])


def plain(*nodes: onnx.NodeProto, outputs=("y",), stored=None, **more) -> onnx.ModelProto:
    return model_from(graph_of(list(nodes), [X], list(outputs), stored), **more)


def function(name: str, *nodes: onnx.NodeProto) -> onnx.FunctionProto:
    return helper.make_function("acme", name, ["a"], ["b"], nodes, [helper.make_opsetid("", 23)])


def with_tensor(change: Callable[[TensorProto], None], kind: int = TensorProto.FLOAT):
    model = plain(of("Add", "x w", "y"))
    tensor = TensorProto(name="w", data_type=kind, dims=[4], raw_data=bytes(16))
    change(tensor)
    model.graph.initializer.append(tensor)
    return model


def set_dims(*dims: int) -> Callable[[TensorProto], None]:
    return lambda tensor: tensor.dims.__setitem__(slice(None), dims)


def with_input(shape=(1,), kind: int = TensorProto.FLOAT) -> onnx.ModelProto:
    value = helper.make_tensor_value_info("x", kind, shape)
    return model_from(graph_of([of("Relu", "x", "y")], [value], ["y"]))


def external(**entries: str) -> Callable[[TensorProto], None]:
    def change(tensor: TensorProto) -> None:
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in entries.items():
            tensor.external_data.add(key=key, value=value)

    return change


def chain(length: int) -> onnx.ModelProto:
    links = [function(f"F{i}", of(f"F{i + 1}", "a", "b", domain="acme")) for i in range(length)]
    last = function(f"F{length}", of("Relu", "a", "b"))
    call = of("F0", "x", "y", domain="acme")
    return plain(call, domains={"acme": 1}, functions=[*links, last])


WRONG = {
    "a node that uses its own output": (
        plain(of("Add", "x y", "y", name="self")), "self: input 'y' comes from a later node"),
    "two nodes in a circle": (
        plain(of("Add", "x b", "a", name="first"), of("Relu", "a", "b"), outputs=("b",)),
        "first: input 'b' comes from a later node, or from itself: the graph has a cycle"),
    "a version that no domain has": (
        plain(of("F", "x", "y", domain="acme"), domains={"acme": 1 << 40}), "opset_import: domain"),
    "an undefined name": (plain(of("Relu", "nothing", "y", name="r")), "r: input 'nothing' is not"),
    "an undefined output": (plain(of("Relu", "x", "z")), "output 'y' is no value of the graph"),
    "a name that two nodes define": (
        plain(of("Relu", "x", "y"), of("Exp", "x", "y", name="again")),
        "again: output 'y' is defined twice"),
    "a name that an input has too": (
        plain(of("Relu", "x", "x", name="r"), outputs=("x",)), "r: output 'x' is defined twice"),
    "two inputs of one name": (
        model_from(graph_of([of("Relu", "x", "y")], [X, X], ["y"])), "input 'x' appears twice"),
    "two initializers of one name": (
        model_from(helper.make_graph(
            [of("Add", "x w", "y")], "g", [X], [onnx.ValueInfoProto(name="y")],
            [onnx.numpy_helper.from_array(np.ones(4, np.float32), "w")] * 2)),
        "initializer 'w' appears twice"),
    "a negative extent": (with_tensor(set_dims(-4)), "initializer 'w': expected extents from 0"),
    "a huge extent": (with_tensor(set_dims(1 << 62)), "initializer 'w': expected extents"),
    "extents whose product is huge": (
        with_tensor(set_dims(1 << 32, 1 << 32, 1 << 32)), "initializer 'w': expected extents"),
    "extents of 0 and huge ones": (
        with_tensor(set_dims(0, 1 << 62)), "initializer 'w': expected extents"),
    "fewer bytes than the shape has": (
        with_tensor(set_dims(5)), "initializer 'w': expected 20 bytes for shape (5,), got 16"),
    "more bytes than the shape has": (
        with_tensor(set_dims(3)), "initializer 'w': expected 12 bytes for shape (3,), got 16"),
    "a rank that no array has": (
        with_tensor(set_dims(*[1] * 63, 4, 1)), "initializer 'w': expected a rank of at most 64"),
    "a shape of too many numbers": (
        plain(of("Reshape", "x s", "y", name="fold"), stored={"s": np.ones(80, np.int64)}),
        "node 'fold' (Reshape): its parts do not fit together: a rank of 80"),
    "no data at all": (
        with_tensor(lambda t: t.ClearField("raw_data")), "initializer 'w': expected 4 elements"),
    "a huge extent of an input": (with_input((1 << 50,)), "input 'x': extent"),
    "an unknown element type of an input": (with_input(kind=99), "input 'x': element type 99"),
    "a function that calls itself": (
        plain(of("F", "x", "y", domain="acme"), domains={"acme": 1},
              functions=[function("F", of("F", "a", "b", domain="acme"))]),
        "functions call themselves or too deep: F calls F"),
    "two functions that call each other": (
        plain(of("F", "x", "y", domain="acme"), domains={"acme": 1},
              functions=[function("F", of("G", "a", "b", domain="acme")),
                         function("G", of("F", "a", "b", domain="acme"))]),
        "functions call themselves or too deep"),
    "two functions of one name": (
        plain(of("F", "x", "y", domain="acme"), domains={"acme": 1},
              functions=[function("F", of("Relu", "a", "b"))] * 2),
        "two functions have one name"),
    "an If with no branch": (
        plain(of("If", "x", "y", name="branch")), "branch: attribute then_branch is missing"),
    "an If with one branch": (
        plain(of("If", "x", "y", name="branch", then_branch=graph_of([], [], []))),
        "branch: attribute else_branch is missing"),
    "a Loop whose body is a number": (
        plain(of("Loop", "x", "y", name="loop", body=1)), "loop: attribute body is missing"),
    "functions that call on and on": (chain(99), "functions call themselves or too deep"),
    "an attribute of another type": (
        plain(of("Softmax", "x", "y", name="s", axis=1.5)), "node 's' (Softmax): attribute axis"),
    "an axis beyond the rank": (plain(of("Softmax", "x", "y", name="s", axis=7)), "node 's'"),
    "an input that is missing": (plain(of("Add", "x", "y", name="a")), "node 'a' (Add): input 1"),
    "shapes that do not fit": (
        plain(of("MatMul", "x w", "y", name="m"), stored={"w": np.ones((5, 2), np.float32)}),
        "node 'm' (MatMul)"),
    "a padding that takes away more than there is": (
        plain(of("Pad", "x p", "y", name="pad"), stored={"p": np.array([0, -3, 0, -3])}),
        "node 'pad' (Pad): its parts do not fit together: an extent becomes -2"),
    "a window larger than its input": (
        model_from(graph_of(
            [of("MaxPool", "x", "y", name="pool", kernel_shape=[1 << 40])],
            [declared("x", shape=[1, 1, 9])], ["y"])),
        "node 'pool' (MaxPool): its parts do not fit together"),
    "indices that are floats": (
        plain(of("Gather", "x i", "y", name="pick"), stored={"i": np.float32(1)}),
        "node 'pick' (Gather): indices of float"),
    "more parts than outputs": (
        plain(of("Split", "x", "y z", name="cut", num_outputs=1 << 30)),
        "node 'cut' (Split): attribute num_outputs"),
    "two attributes of one name": (
        plain(helper.make_node("Relu", ["x"], ["y"], name="r")), "r: two attributes have one name"),
}  # fmt: skip
WRONG["two attributes of one name"][0].graph.node[0].attribute.extend(
    [helper.make_attribute("a", 1)] * 2
)

UNKNOWN = {
    "an operator set of none": (plain(of("Relu", "x", "y"), opset=0), "operator set 0"),
    "an input of too many dimensions": (with_input([1] * 65), "input 'x': its rank is above 64"),
    "an operator in an old form": (
        plain(of("Relu", "x", "y", name="r"), opset=5), "node 'r' (Relu): the form it had"),
    "an unknown element type": (
        with_tensor(lambda tensor: None, kind=99), "initializer 'w': element type 99 is not known"),
    "an unknown operator": (
        plain(of("Nope", "x", "y", name="what")), "node 'what' (Nope): the operator Nope"),
    "an input that is a sequence": (
        model_from(graph_of([of("SequenceAt", "x i", "y")], [
            helper.make_tensor_sequence_value_info("x", 1, [2]), declared("i", np.int64(0))], ["y"])),
        "input 'x': only tensors"),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_graph_is_refused_by_node_and_field(kind: str, tmp_path: Path, refusal) -> None:
    model, message = WRONG[kind]
    assert message in refusal(lamina.read, saved(model, tmp_path))


@pytest.mark.parametrize("kind", UNKNOWN)
def test_what_is_not_supported_is_refused_by_name(kind: str, tmp_path: Path, refusal) -> None:
    model, message = UNKNOWN[kind]
    assert message in refusal(lamina.read, saved(model, tmp_path), UnsupportedError)


@pytest.mark.parametrize("cut", [1, 2, 3, 10, 40, -1])
def test_a_truncated_file_is_refused(cut: int, tmp_path: Path, refusal) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(model_from(ONE).SerializeToString()[:cut])
    refusal(lamina.read, path)


def test_a_length_that_lies_is_refused(tmp_path: Path, refusal) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"\x08\x0a\x3a\xff\xff\xff\xff\x0f" + bytes(8))
    assert "is no ONNX model" in refusal(lamina.read, path)


@pytest.mark.parametrize("name", [b"Softmax", b"axis", b"some_x"])
def test_a_name_that_is_no_text_is_refused(name: bytes, tmp_path: Path, refusal) -> None:
    path = tmp_path / "m.onnx"
    graph = graph_of([of("Softmax", "some_x", "y", axis=0)], [declared("some_x", shape=[2])], ["y"])
    path.write_bytes(model_from(graph).SerializeToString().replace(name, b"\xff" * len(name)))
    assert "expected text in UTF-8" in refusal(lamina.read, path)


def test_a_file_without_a_graph_is_refused(tmp_path: Path, refusal) -> None:
    assert "field graph" in refusal(lamina.read, saved(onnx.ModelProto(ir_version=8), tmp_path))


OUTSIDE = ["/etc/passwd", "../w.bin", "a/../../w.bin", "", "..\\w.bin", ".", "w\0.bin", "a\nb"]


@pytest.mark.parametrize("location", OUTSIDE)
def test_data_outside_of_the_folder_is_refused(location: str, tmp_path: Path, refusal) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(16))
    (tmp_path / "inner").mkdir()
    path = saved(with_tensor(external(location=location)), tmp_path / "inner")
    assert "initializer 'w'" in refusal(lamina.read, path)


def test_data_behind_a_linked_folder_outside_is_refused(tmp_path: Path, refusal) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(16))
    (tmp_path / "inner").mkdir()
    os.symlink(tmp_path, tmp_path / "inner" / "link")
    path = saved(with_tensor(external(location="link/w.bin")), tmp_path / "inner")
    assert "a path inside the model's folder" in refusal(lamina.read, path)


def test_a_link_that_leads_outside_is_refused(tmp_path: Path, refusal) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(16))
    (tmp_path / "inner").mkdir()
    os.symlink(tmp_path / "secret.bin", tmp_path / "inner" / "w.bin")
    path = saved(with_tensor(external(location="w.bin")), tmp_path / "inner")
    assert "a path inside the model's folder" in refusal(lamina.read, path)


@pytest.mark.parametrize("location", ["loop", "w" * 5000, "a/" * 2000 + "w"])
def test_a_path_that_leads_nowhere_is_refused(location: str, tmp_path: Path, refusal) -> None:
    os.symlink("loop", tmp_path / "loop")
    path = saved(with_tensor(external(location=location)), tmp_path)
    assert "initializer 'w'" in refusal(lamina.read, path)


def test_a_folder_of_links_to_another_folder_is_read(tmp_path: Path) -> None:
    for folder in ("blobs", "snapshot"):
        (tmp_path / folder).mkdir()
    (tmp_path / "blobs" / "b").write_bytes(bytes(16))
    saved(with_tensor(external(location="w.bin")), tmp_path / "blobs", "a")
    os.symlink("../blobs/a", tmp_path / "snapshot" / "m.onnx")
    os.symlink("../blobs/b", tmp_path / "snapshot" / "w.bin")
    assert lamina.read(tmp_path / "snapshot" / "m.onnx").weights.nbytes == 16


@pytest.mark.parametrize(
    "entries",
    [
        {"offset": "-1"}, {"offset": "1"}, {"length": "15"}, {"length": "17"}, {"offset": "x"},
        {"length": "99999999999999999999"}, {"offset": "99999999999999999"}, {"length": "²"},
    ],
)  # fmt: skip
def test_a_place_that_the_data_has_not_is_refused(entries, tmp_path: Path, refusal) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(16))
    path = saved(with_tensor(external(location="w.bin", **entries)), tmp_path)
    assert "initializer 'w'" in refusal(lamina.read, path)


def test_data_that_is_not_there_is_refused(tmp_path: Path, refusal) -> None:
    path = saved(with_tensor(external(location="w.bin")), tmp_path)
    assert "no such file" in refusal(lamina.read, path)


def test_data_in_the_folder_is_read(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(8) + np.arange(4, dtype=np.float32).tobytes())
    path = saved(with_tensor(external(location="w.bin", offset="8", length="16")), tmp_path)
    (y,) = lamina.compile(lamina.read(path), "reference")(np.zeros((1, 4), np.float32)).values()
    np.testing.assert_array_equal(y, [[0, 1, 2, 3]])


def test_a_declared_shape_that_disagrees_is_warned_of(tmp_path: Path) -> None:
    graph = graph_of([of("Relu", "x", "y")], [X], [declared("y", shape=[2, 5])])
    with pytest.warns(UserWarning, match="output 'y' is declared with another shape"):
        lamina.read(saved(model_from(graph), tmp_path))


def test_a_huge_repetition_is_refused_before_memory_is_taken(tmp_path: Path, traced) -> None:
    shape = np.array([1 << 31, 1 << 31], np.int64)
    model = plain(of("Expand", "x s", "y"), stored={"s": shape})

    def read() -> None:
        with pytest.raises((FormatError, UnsupportedError)):
            lamina.compile(lamina.read(saved(model, tmp_path)), "cpu")

    assert traced(read) < 50_000_000
