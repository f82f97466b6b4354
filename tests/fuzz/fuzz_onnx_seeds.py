"""Small ONNX models with something of every part of the format: what fuzzing starts from."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import AttributeProto, TensorProto, ValueInfoProto, helper, numpy_helper
from onnx.helper import make_node


def models() -> list[bytes]:
    """Models of weights, of shapes, of branches and loops, of functions, and of windows."""
    return [each() for each in (_weights, _shapes, _branches, _function, _windows, _quantised)]


def _model(nodes: Sequence[Any], inputs: dict[str, list[Any]], stored: Any, **more: Any) -> bytes:
    values = [helper.make_tensor_value_info(name, 1, shape) for name, shape in inputs.items()]
    tensors = [
        x if isinstance(x, TensorProto) else numpy_helper.from_array(x, k)
        for k, x in stored.items()
    ]
    graph = helper.make_graph(nodes, "g", values, [ValueInfoProto(name="y")], tensors)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("acme", 1)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=10, **more)
    return made.SerializeToString()


def _weights() -> bytes:
    outside = TensorProto(name="b", data_type=1, dims=[4], data_location=TensorProto.EXTERNAL)
    outside.external_data.add(key="location", value="w.bin")
    outside.external_data.add(key="offset", value="16")
    nodes = [
        make_node("MatMul", ["x", "w"], ["p"]),
        make_node("Add", ["p", "b"], ["s"], name="bias"),
        make_node("Softmax", ["s"], ["y"], axis=-1),
    ]
    return _model(nodes, {"x": ["n", 3]}, {"w": np.ones((3, 4), np.float32), "b": outside})


def _shapes() -> bytes:
    nodes = [
        make_node("Shape", ["x"], ["s"]),
        make_node("Gather", ["s", "zero"], ["n"]),
        make_node("Unsqueeze", ["n", "zero1"], ["n1"]),
        make_node("Concat", ["n1", "rest"], ["t"], axis=0),
        make_node("Reshape", ["x", "t"], ["r"]),
        make_node("Slice", ["r", "zero1", "rest", "one", "one"], ["c"]),
        make_node("Transpose", ["c"], ["q"], perm=[1, 0]),
        make_node("Split", ["q"], ["a", "b"], num_outputs=2, axis=0),
        make_node("ReduceMean", ["a", "one"], ["m"], keepdims=0),
        make_node("NonZero", ["m"], ["y"]),
    ]
    stored = {"zero": 0, "zero1": [0], "one": [1], "rest": [-1]}
    return _model(nodes, {"x": ["n", 2, 3]}, {k: np.array(v) for k, v in stored.items()})


def _branches() -> bytes:
    info = ValueInfoProto
    then = helper.make_graph([make_node("Exp", ["x"], ["t"])], "then", [], [info(name="t")])
    other = helper.make_graph([make_node("Neg", ["x"], ["e"])], "else", [], [info(name="e")])
    inputs = [info(name=name) for name in ("i", "go", "v")]
    body = helper.make_graph(
        [make_node("Add", ["v", "x"], ["w"]), make_node("Identity", ["go"], ["on"])],
        "body", inputs, [info(name="on"), info(name="w"), info(name="w")],
    )  # fmt: skip
    nodes = [
        make_node("If", ["c"], ["z"], then_branch=then, else_branch=other),
        make_node("Loop", ["m", "c", "z"], ["last", "y"], body=body),
    ]
    return _model(nodes, {"x": [2]}, {"c": np.array(True), "m": np.array(3)})


def _function() -> bytes:
    inner = make_node("Elu", ["a"], ["b"])
    inner.attribute.add(name="alpha", ref_attr_name="k", type=AttributeProto.FLOAT)
    opsets = [helper.make_opsetid("", 21)]
    made = helper.make_function("acme", "F", ["a"], ["b"], [inner], opsets, ["k"])
    nodes = [make_node("F", ["x"], ["y"], domain="acme", k=0.5)]
    return _model(nodes, {"x": ["n"]}, {}, functions=[made])


def _windows() -> bytes:
    nodes = [
        make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], strides=[2, 1], group=2),
        make_node("MaxPool", ["c"], ["p"], kernel_shape=[2, 2], ceil_mode=1),
        make_node("Resize", ["p", "", "s"], ["r"], mode="linear"),
        make_node("GlobalAveragePool", ["r"], ["y"]),
    ]
    stored = {"w": np.ones((4, 1, 3, 3), np.float32), "s": np.array([1, 1, 2, 2], np.float32)}
    return _model(nodes, {"x": [1, 2, 6, "w"]}, stored)


def _quantised() -> bytes:
    codes = helper.make_tensor("w", TensorProto.UINT4, [2, 4], b"\x21\x43\x65\x87", raw=True)
    stored = {
        "w": codes, "s": np.ones((2, 2), np.float32), "t": np.array(0.5, np.float32),
        "z": np.array(3, np.uint8), "h": np.ones((4, 4), np.float16),
    }  # fmt: skip
    nodes = [
        make_node("DequantizeLinear", ["w", "s"], ["d"], axis=1, block_size=2),
        make_node("MatMul", ["x", "d"], ["m"]),
        make_node("QuantizeLinear", ["m", "t", "z"], ["q"]),
        make_node("DequantizeLinear", ["q", "t", "z"], ["f"]),
        make_node("Cast", ["f"], ["g"], to=10),
        make_node("Gemm", ["g", "h"], ["y"], transB=1),
    ]
    return _model(nodes, {"x": ["n", 2]}, stored)
