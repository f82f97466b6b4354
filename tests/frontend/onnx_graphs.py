"""Small ONNX models, and what they give on the CPU."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

import lamina
from lamina.frontend.onnx.frontend import model_of
from lamina.frontend.onnx.model_file import open_onnx

NEWEST, ZERO = 23, np.float32(0)


def declared(name: str, array: Any = ZERO, shape: Any = ...) -> onnx.ValueInfoProto:
    """An input like an array, of its shape if no other is said; None is an unknown rank."""
    array = np.asarray(array)
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, kind, array.shape if shape is ... else shape)


def graph_of(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str | onnx.ValueInfoProto],
    stored: Mapping[str, Any] | None = None,
    name: str = "graph",
) -> onnx.GraphProto:
    """A graph whose outputs need no types."""
    tensors = [numpy_helper.from_array(np.asarray(x), key) for key, x in (stored or {}).items()]
    given = [onnx.ValueInfoProto(name=each) if isinstance(each, str) else each for each in outputs]
    return helper.make_graph(nodes, name, inputs, given, tensors)


def model_from(
    graph: onnx.GraphProto,
    opset: int = NEWEST,
    domains: Mapping[str, int] | None = None,
    **more: Any,
) -> onnx.ModelProto:
    """A model of a graph."""
    opsets = {"": opset, "com.microsoft": 1} | dict(domains or {})
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=10, **more)


def saved(model: onnx.ModelProto, folder: Path, name: str = "m.onnx") -> Path:
    """The path of a model, written as it is."""
    path = folder / name
    path.write_bytes(model.SerializeToString())
    return path


def run(model: onnx.ModelProto, *arrays: Any, target: str = "cpu") -> list[np.ndarray]:
    """The outputs for inputs in order."""
    made = lamina.compile(model_of(open_onnx(model)), target)
    found = made(*(np.ascontiguousarray(x) if np.ndim(x) else np.asarray(x) for x in arrays))
    return [found[value.name] for value in model.graph.output]


def run_node(
    op: str,
    *arrays: Any,
    opset: int = NEWEST,
    outputs: int = 1,
    stored: Sequence[int] = (),
    domain: str = "",
    **attributes: Any,
) -> list[np.ndarray]:
    """The outputs of one node; inputs that are None are not given, those of `stored` are weights."""
    names = ["" if x is None else f"x{i}" for i, x in enumerate(arrays)]
    given = {names[i]: np.asarray(x) for i, x in enumerate(arrays) if x is not None}
    fixed = {names[i]: given.pop(names[i]) for i in stored}
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op, names, results, name="node", domain=domain, **attributes)
    inputs = [declared(name, x) for name, x in given.items()]
    model = model_from(graph_of([node], inputs, results, fixed), opset)
    return run(model, *given.values())


def of(node: str, *names: str, **attributes: Any) -> onnx.NodeProto:
    """A node `Op: a, b -> y` by the words `Op`, `a b`, `y`."""
    inputs, outputs = (each.split() for each in names)
    return helper.make_node(node, inputs, outputs, **attributes)
