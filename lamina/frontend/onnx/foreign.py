"""Nodes whose form depends on values that are known only when they run: they are kept whole."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from zlib import compress, decompress

from lamina.dialects import nn
from lamina.dialects.dims import Dim, parse_dim
from lamina.dialects.tensors import tensor
from lamina.errors import UnsupportedError
from lamina.frontend.model import MOST_READ
from lamina.frontend.onnx.checks import graphs_of
from lamina.frontend.onnx.emit import Emit, element_of
from lamina.frontend.onnx.kinds import KINDS, Kind
from lamina.frontend.onnx.standard import type_of_array
from lamina.frontend.onnx.values import Array, Known, Tensor, Value

if TYPE_CHECKING:
    from onnx import FunctionProto, GraphProto, ModelProto, NodeProto

ONNX = "onnx."
"""What the kinds of foreign operations begin with that are nodes of ONNX graphs."""


def foreign(
    emit: Emit,
    proto: NodeProto,
    values: Mapping[str, Value],
    opsets: Mapping[str, int],
    functions: Sequence[FunctionProto],
    reason: UnsupportedError,
    fresh: Iterator[str],
    ranks: Mapping[str, tuple[Kind, int]],
) -> list[Value]:
    """Add a node as it is, with what its graphs take from outside; return its outputs.

    `values` are all names that the node may use, `ranks` what the file declares of outputs. Where
    even the rank of an output is not known now, `reason` is raised.
    """
    proto = _without_large(proto)
    used = [name for name in dict.fromkeys([*proto.input, *captured(proto)]) if name]
    arrays: dict[str, Array] = {}
    for name in used:
        value = values.get(name)
        if not isinstance(value, Array):
            raise reason
        arrays[name] = value
    outputs = [name for name in proto.output if name]
    types = {**_types(proto, arrays, opsets, fresh), **_ranked(proto, arrays, fresh)}
    for name in outputs:
        if name not in types and name in ranks:
            kind, rank = ranks[name]
            types[name] = kind, tuple(Dim.symbol(next(fresh)) for _ in range(rank))
    if any(name not in types for name in outputs):
        raise reason
    model = model_of_node(proto, {n: v.kind for n, v in arrays.items()}, opsets, functions)
    payload = b64encode(compress(model.SerializeToString(deterministic=True))).decode()
    tensors = [emit.tensor(value) for value in arrays.values()]
    kinds = [types[name][0] for name in outputs]
    results = [
        tensor(element_of(kind), types[name][1]) for kind, name in zip(kinds, outputs, strict=True)
    ]
    texts = any(kind.is_text for kind in (*kinds, *(value.kind for value in arrays.values())))
    if texts:
        emit.graph.take_texts()
    op = nn.ForeignOp(
        [x.value for x in tensors], f"{ONNX}{proto.op_type}", payload, results, texts=texts
    )
    emit.graph.add(op)
    found = {name: Tensor(y, kind) for name, y, kind in zip(outputs, op.ys, kinds, strict=True)}
    return [found.get(name) for name in proto.output]


def model_of_node(
    proto: NodeProto,
    kinds: Mapping[str, Kind],
    opsets: Mapping[str, int],
    functions: Sequence[FunctionProto],
) -> ModelProto:
    """Return a model of one node, whose inputs are all that it uses."""
    import onnx

    graph = onnx.GraphProto(name="node")
    graph.node.append(proto)
    return model_of_graph(graph, kinds, [n for n in proto.output if n], opsets, functions)


def model_of_graph(
    graph: GraphProto,
    kinds: Mapping[str, Kind],
    outputs: Sequence[str],
    opsets: Mapping[str, int],
    functions: Sequence[FunctionProto],
) -> ModelProto:
    """Return a model of a graph whose inputs have these element types; it is changed."""
    import onnx

    del graph.input[:], graph.output[:]
    for name, kind in kinds.items():
        value = onnx.ValueInfoProto(name=name)
        value.type.tensor_type.elem_type = kind.number
        graph.input.append(value)
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
    model = onnx.ModelProto(ir_version=10, graph=graph, functions=functions)
    for domain, version in opsets.items():
        model.opset_import.append(onnx.OperatorSetIdProto(domain=domain, version=version))
    return model


@lru_cache(maxsize=256)
def model_of_payload(payload: str) -> ModelProto:
    """Return the model of one node that a foreign operation carries."""
    import onnx

    model = onnx.ModelProto()
    model.ParseFromString(decompress(b64decode(payload)))
    return model


def captured(proto: NodeProto) -> list[str]:
    """Return the names that the graphs of a node use and do not define."""
    found: dict[str, None] = {}
    for _, graph in graphs_of(proto):
        own = {value.name for value in graph.input} | {t.name for t in graph.initializer}
        for node in graph.node:
            names = [*node.input, *captured(node)]
            found |= {name: None for name in names if name and name not in own}
            own |= set(node.output)
        found |= {value.name: None for value in graph.output if value.name not in own}
    return list(found)


def _without_large(proto: NodeProto) -> NodeProto:
    """Return a node whose graphs have no large tensors: they take those from outside."""
    if not any(True for _ in graphs_of(proto)):
        return proto
    copy = type(proto)()
    copy.CopyFrom(proto)
    for _, graph in graphs_of(copy):
        kept = [t for t in graph.initializer if _size(t.dims) <= MOST_READ]
        del graph.initializer[:]
        graph.initializer.extend(kept)
    return copy


def _size(dims: Sequence[int]) -> int:
    size = 1
    for n in dims:
        size *= n
    return size


def _types(
    proto: NodeProto, arrays: Mapping[str, Array], opsets: Mapping[str, int], fresh: Iterator[str]
) -> dict[str, tuple[Kind, tuple[Dim, ...]]]:
    """Return what the standard says of the outputs: element types, and extents with new symbols."""
    import onnx
    from onnx import defs, shape_inference

    domain = "" if proto.domain == "ai.onnx" else proto.domain
    try:
        schema = defs.get_schema(proto.op_type, opsets.get(domain, 1), domain)
        given = {name: type_of_array(value) for name, value in arrays.items()}
        data = {name: t for name, v in arrays.items() if (t := _data(name, v)) is not None}
        imports = [onnx.OperatorSetIdProto(domain=d, version=v) for d, v in opsets.items()]
        found = shape_inference.infer_node_outputs(
            schema, proto, given, data, opset_imports=imports, ir_version=10
        )
    except (defs.SchemaError, onnx.checker.ValidationError, shape_inference.InferenceError):
        return {}
    types: dict[str, tuple[Kind, tuple[Dim, ...]]] = {}
    for name, type in found.items():
        kind = type.tensor_type
        if not kind.HasField("shape") or kind.elem_type not in KINDS:
            continue
        dims = tuple(_dim(d, fresh) for d in kind.shape.dim)
        types[name] = (KINDS[kind.elem_type], dims)
    return types


def _ranked(
    proto: NodeProto, arrays: Mapping[str, Array], fresh: Iterator[str]
) -> dict[str, tuple[Kind, tuple[Dim, ...]]]:
    """Return what is known of an output whatever the values: of some operators, its rank."""
    x = arrays.get(proto.input[0]) if proto.input else None
    if x is None:
        return {}
    given = {each.name: each.i for each in proto.attribute}
    rank, op = len(x.shape), proto.op_type
    axes = arrays.get(proto.input[1]) if len(proto.input) > 1 else None
    count = axes.shape[0].constant if axes is not None and len(axes.shape) == 1 else None
    if op in ("CumSum", "CumProd", "Trilu"):
        return {proto.output[0]: (x.kind, x.shape)}
    if op in ("Slice", "Pad") or (op.startswith("Reduce") and given.get("keepdims", 1)):
        return {proto.output[0]: (x.kind, tuple(Dim.symbol(next(fresh)) for _ in range(rank)))}
    if count and (op.startswith("Reduce") or op in ("Squeeze", "Unsqueeze")):
        left = rank + count if op == "Unsqueeze" else rank - count
        return {proto.output[0]: (x.kind, tuple(Dim.symbol(next(fresh)) for _ in range(left)))}
    return {}


def _data(name: str, value: Array) -> Any:
    from onnx import numpy_helper

    if isinstance(value, Known) and value.is_plain and value.kind.element is not None:
        return numpy_helper.from_array(value.array, name)
    return None


def _dim(dim: Any, fresh: Iterator[str]) -> Dim:
    if dim.HasField("dim_value"):
        return Dim.of(int(dim.dim_value))
    if dim.HasField("dim_param"):
        try:
            return parse_dim(dim.dim_param)
        except ValueError:
            pass
    return Dim.symbol(next(fresh))
