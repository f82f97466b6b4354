"""Models of one ONNX node, compiled whole, with inputs by name."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt
import onnx
from onnx import helper
from onnx_graphs import declared, graph_of, model_from

from lamina.compiler import compile as compile_model
from lamina.frontend.onnx.frontend import model_of
from lamina.frontend.onnx.model_file import open_onnx
from lamina.targets.base import Executable

Array = npt.NDArray[Any]
MICROSOFT = "com.microsoft"


def compiled(model: onnx.ModelProto) -> Executable:
    """A model compiled for the CPU; that a node of it runs by its meaning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return compile_model(model_of(open_onnx(model)), "cpu")


def run(
    op: str,
    inputs: Mapping[str, Any],
    stored: Sequence[str] = (),
    *,
    outputs: int | Sequence[str] = 1,
    domain: str = "",
    opset: int = 24,
    free: bool = False,
    **attributes: Any,
) -> list[Array]:
    """The outputs of one node with `free` extents; inputs that are `stored` are weights of it.

    `outputs` is how many there are, or their names, of which those that are empty are not given.
    """
    given = {n: x for n, x in inputs.items() if x is not None and n not in stored}
    values = [
        declared(name, x, [f"{name}{i}" for i in range(x.ndim)] if free else x.shape)
        for name, x in given.items()
    ]
    names = ["" if x is None else name for name, x in inputs.items()]
    results = [f"out{i}" for i in range(outputs)] if isinstance(outputs, int) else outputs
    node = helper.make_node(op, names, results, name="node", domain=domain, **attributes)
    given_back = [name for name in results if name]
    graph = graph_of([node], values, given_back, {name: inputs[name] for name in stored})
    return list(compiled(model_from(graph, opset))(**given).values())
