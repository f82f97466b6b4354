"""Models of one node with elements of any type that the standard lets the node have.

They are made from the test cases of the package onnx: what is given of a node there, its inputs and
attributes, is brought into the form of the operator's version, and one of its types is changed.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    TypeProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)
from onnx.defs import OpSchema

MOVED = {"constant_value": "value"}
"""Inputs that were attributes of another name."""

OF_TYPE = {
    "Bernoulli": ("dtype", "T2"),
    "BitCast": ("to", "T2"),
    "BlackmanWindow": ("output_datatype", "T2"),
    "Cast": ("to", "T2"),
    "DequantizeLinear": ("output_dtype", "T3"),
    "EyeLike": ("dtype", "T2"),
    "HammingWindow": ("output_datatype", "T2"),
    "HannWindow": ("output_datatype", "T2"),
    "MelWeightMatrix": ("output_datatype", "T3"),
    "Multinomial": ("dtype", "T2"),
    "QuantizeLinear": ("output_dtype", "T3"),
    "RandomNormal": ("dtype", "T"),
    "RandomNormalLike": ("dtype", "T2"),
    "RandomUniform": ("dtype", "T"),
    "RandomUniformLike": ("dtype", "T2"),
    "SequenceEmpty": ("dtype", "S"),
}
"""Attributes that name an element type, and the type of outputs that it is."""

FURTHER = {
    "ConcatFromSequence": "(seq(float[2]) x) => (float[4] y) { y = ConcatFromSequence<axis=0>(x) }",
    "GlobalLpPool": "(float[1,2,3,3] x) => (float[1,2,1,1] y) { y = GlobalLpPool(x) }",
    "Loop": """(int64 n, bool c, float[2] x) => (float[2] y, float[k,2] z)
        { y, z = Loop<body = body (int64 i, bool c0, float[2] s) => (bool c1, float[2] t, float[2] r)
            { c1 = Identity(c0) t = Identity(s) r = Identity(s) }>(n, c, x) }""",
    "MaxRoiPool": """(float[1,2,6,6] x, float[3,5] rois) => (float[3,2,2,2] y)
        { y = MaxRoiPool<pooled_shape=[2,2]>(x, rois) }""",
    "Multinomial": "(float[2,3] x) => (int32[2,4] y) { y = Multinomial<sample_size=4>(x) }",
    "Optional": "(float[2] x) => (optional(float[2]) y) { y = Optional(x) }",
    "OptionalGetElement": "(optional(float[2]) x) => (float[2] y) { y = OptionalGetElement(x) }",
    "OptionalHasElement": "(optional(float[2]) x) => (bool y) { y = OptionalHasElement(x) }",
    "RandomNormal": "() => (float[2,3] y) { y = RandomNormal<shape=[2,3]>() }",
    "RandomNormalLike": "(float[2,3] x) => (float[2,3] y) { y = RandomNormalLike(x) }",
    "RandomUniform": "() => (float[2,3] y) { y = RandomUniform<shape=[2,3]>() }",
    "RandomUniformLike": "(float[2,3] x) => (float[2,3] y) { y = RandomUniformLike(x) }",
    "Scan": """(float[2] a, float[3,2] x) => (float[2] y, float[3,2] z)
        { y, z = Scan<num_scan_inputs=1, body = body (float[2] s, float[2] r) => (float[2] t, float[2] o)
            { t = Identity(s) o = Identity(r) }>(a, x) }""",
    "SequenceAt": "(seq(float[2]) x, int64 i) => (float[2] y) { y = SequenceAt(x, i) }",
    "SequenceConstruct": "(float[2] x) => (seq(float[2]) y) { y = SequenceConstruct(x) }",
    "SequenceEmpty": "() => (seq(float[2]) y) { y = SequenceEmpty() }",
    "SequenceErase": "(seq(float[2]) x) => (seq(float[2]) y) { y = SequenceErase(x) }",
    "SequenceLength": "(seq(float[2]) x) => (int64 y) { y = SequenceLength(x) }",
}
"""Operators that have no test case: a graph, as the package onnx parses it."""

MOST_CASES = 4
"""How many test cases of an operator are tried."""


class Given(NamedTuple):
    """A test case: its node, the types of its inputs and outputs, and what inputs have in it."""

    node: NodeProto
    types: Mapping[str, TypeProto]
    values: Mapping[str, Any]
    schema: OpSchema


def models(schema: OpSchema, variable: str, number: int) -> Iterator[ModelProto]:
    """Yield models of an operator of a version in which one type of the schema has elements.

    `variable` is a type of the schema, `number` the element type as the standard numbers it.
    Inputs behind the first one are initializers in some, and inputs of the model in others.
    """
    tried = 0
    for given in cases()[schema.domain, schema.name]:
        aged = _aged(given, schema)
        types = None if aged is None else _types(given, aged, schema, variable, number)
        if aged is None or types is None:
            continue
        yield _model(given, aged, schema, types, known=True)
        if len(aged.input) > 1:
            yield _model(given, aged, schema, types, known=False)
        tried += 1
        if tried == MOST_CASES:
            return


@cache
def cases() -> Mapping[tuple[str, str], list[Given]]:
    """Return test cases of one node by domain and operator, those of few inputs first."""
    from onnx import defs
    from onnx.backend.test.case import node

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        collected = node.collect_testcases(None)
    found: dict[tuple[str, str], list[Given]] = defaultdict(list)
    for case in collected:
        graph, opsets = case.model.graph, {o.domain: o.version for o in case.model.opset_import}
        if len(graph.node) == 1 and not graph.initializer:
            (only,) = graph.node
            values = dict(zip((i.name for i in graph.input), case.data_sets[0][0], strict=True))
            types = {value.name: value.type for value in (*graph.input, *graph.output)}
            schema = defs.get_schema(only.op_type, opsets.get(only.domain, 1), only.domain)
            found[only.domain, only.op_type].append(Given(only, types, values, schema))
    for each in found.values():
        each.sort(key=lambda given: len(given.node.input))
    for op, text in FURTHER.items():
        found["", op].insert(0, _parsed(text))
    return found


def _parsed(text: str) -> Given:
    from onnx import defs, parser

    graph = parser.parse_graph(f"node {text}")
    (node,) = graph.node
    types = {value.name: value.type for value in (*graph.input, *graph.output)}
    ones = {
        value.name: np.ones([d.dim_value for d in _tensor_of(value.type).shape.dim], np.float32)
        for value in graph.input
    }
    several = {v.name for v in graph.input if v.type.HasField("sequence_type")}
    values = {name: [one, one] if name in several else one for name, one in ones.items()}
    return Given(node, types, values, defs.get_schema(node.op_type))


# Another version


def _aged(given: Given, schema: OpSchema) -> NodeProto | None:
    """Return the node in the form of a version: inputs become attributes where they were that."""
    node = NodeProto()
    node.CopyFrom(given.node)
    named = [each.name for each in schema.inputs]
    kept: list[str] = []
    for i, name in enumerate(node.input):
        own = given.schema.inputs[min(i, len(given.schema.inputs) - 1)].name
        moved = MOVED.get(own, own)
        if own not in named and moved in schema.attributes and name:
            if not np.size(given.values[name]):
                return None
            node.attribute.append(_attribute(moved, given.values[name], schema))
        else:
            kept.append(name)
    del node.input[:]
    node.input.extend(kept)
    known = [each for each in node.attribute if each.name in schema.attributes]
    del node.attribute[:]
    node.attribute.extend(known)
    names = {each.name for each in node.attribute}
    required = {name for name, each in schema.attributes.items() if each.required}
    fits = required <= names
    fits = fits and schema.min_input <= len(kept) <= schema.max_input
    return node if fits and len(node.output) <= schema.max_output else None


def _attribute(name: str, value: Any, schema: OpSchema) -> AttributeProto:
    array = np.asarray(value)
    listed = schema.attributes[name].type in (
        OpSchema.AttrType.INTS,
        OpSchema.AttrType.FLOATS,
    )
    return helper.make_attribute(name, array.ravel().tolist() if listed else array.item())


# Types


def _types(
    given: Given, node: NodeProto, schema: OpSchema, variable: str, number: int
) -> dict[str, int] | None:
    """Return an element type for each type of the schema; None if `variable` is not there."""
    types = _before(given, node, schema)
    if variable not in types:
        return None
    types[variable] = number
    if schema.name == "BitCast":
        types = dict.fromkeys(types, number)
    for each in schema.type_constraints:
        allowed = numbers_of(each.allowed_type_strs)
        name = each.type_param_str
        if name in types and types[name] not in allowed and allowed:
            types[name] = TensorProto.FLOAT if TensorProto.FLOAT in allowed else allowed[0]
    return types if types[variable] == number else None


def _before(given: Given, node: NodeProto, schema: OpSchema) -> dict[str, int]:
    """Return the element types that the test case has: of inputs, and of outputs by themselves."""
    pairs = formal(schema.inputs, node.input)
    types: dict[str, int] = {}
    for each, name in pairs:
        types.setdefault(each.type_str, element_of(given.types[name]))
    has_tensors = any(_tensors(node))
    named = OF_TYPE.get(schema.name, ("", ""))[1]
    for each, name in formal(schema.outputs, node.output):
        if each.type_str == named or has_tensors:
            types.setdefault(each.type_str, element_of(given.types[name]))
    return types


def formal(parameters: Any, names: Any) -> list[tuple[Any, str]]:
    """Return names that are given, each with its parameter of a schema."""
    last = len(parameters) - 1
    return [(parameters[min(i, last)], name) for i, name in enumerate(names) if name]


def element_of(type: TypeProto) -> int:
    """Return the element type of a tensor, or of a sequence or an optional of tensors."""
    return _tensor_of(type).elem_type


def numbers_of(allowed: Any) -> list[int]:
    """Return the element types of a list of types like `seq(tensor(float))`, in their order."""
    names = {text.replace(")", "").rpartition("(")[2].upper() for text in allowed}
    return sorted(TensorProto.DataType.Value(name) for name in names if "COMPLEX" not in name)


def _tensor_of(type: TypeProto) -> Any:
    while type.WhichOneof("value") in ("sequence_type", "optional_type"):
        type = getattr(type, type.WhichOneof("value")).elem_type
    return type.tensor_type


def _tensors(node: NodeProto) -> Iterator[TensorProto]:
    """Yield tensors that are attributes of a node, or of nodes in its graphs."""
    for each in node.attribute:
        if each.type == AttributeProto.TENSOR:
            yield each.t
        elif each.type == AttributeProto.GRAPH:
            for inner in each.g.node:
                yield from _tensors(inner)


# Models


def _model(
    given: Given, node: NodeProto, schema: OpSchema, types: Mapping[str, int], *, known: bool
) -> ModelProto:
    graph = GraphProto(name="node")
    before = _before(given, node, schema)
    node = _of_types(node, schema, before, types)
    for each, name in formal(schema.inputs, node.input):
        if known and name != node.input[0] and given.types[name].HasField("tensor_type"):
            graph.initializer.append(
                _tensor(name, np.asarray(given.values[name]), types[each.type_str])
            )
        else:
            _add_input(graph, given, name, types[each.type_str])
    graph.node.append(node)
    for each, name in formal(schema.outputs, node.output):
        number = types.get(each.type_str, element_of(given.types[name]))
        graph.output.append(_output(graph, given, name, number))
    opsets = [helper.make_opsetid(schema.domain, schema.since_version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _add_input(graph: GraphProto, given: Given, name: str, number: int) -> None:
    """Add an input; a sequence or an optional is made of tensors that are inputs."""
    type = given.types[name]
    values = given.values[name]
    kind = type.WhichOneof("value")
    if kind == "tensor_type":
        graph.input.append(_input(name, np.shape(values), number))
        return
    parts = values if isinstance(values, list | tuple) else [values]
    names = [f"{name}_{i}" for i in range(len(parts))]
    for each, part in zip(names, parts, strict=True):
        graph.input.append(_input(each, np.shape(part), number))
    if kind == "optional_type":
        inner = type.optional_type.elem_type.WhichOneof("value") == "sequence_type"
        if inner:
            graph.node.append(helper.make_node("SequenceConstruct", names, [f"{name}_s"]))
        made = f"{name}_s" if inner else names[0]
        graph.node.append(helper.make_node("Optional", [made], [name]))
    else:
        graph.node.append(helper.make_node("SequenceConstruct", names, [name]))


def _input(name: str, shape: Any, number: int) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, number, list(shape))


def _output(graph: GraphProto, given: Given, name: str, number: int) -> ValueInfoProto:
    """Return an output as it is declared; of a sequence or an optional, something known of it."""
    kind = given.types[name].WhichOneof("value")
    if kind == "tensor_type":
        value = ValueInfoProto(name=name, type=given.types[name])
        _tensor_of(value.type).elem_type = number
        return value
    asked = "SequenceLength" if kind == "sequence_type" else "OptionalHasElement"
    graph.node.append(helper.make_node(asked, [name], [f"{name}_asked"]))
    return ValueInfoProto(name=f"{name}_asked")


def _tensor(name: str, array: np.ndarray, number: int) -> TensorProto:
    if number == TensorProto.STRING:
        return helper.make_tensor(name, number, array.shape, [str(n) for n in array.ravel()])
    if array.dtype == np.object_:
        array = np.ones(array.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cast = array.astype(np.float64).astype(helper.tensor_dtype_to_np_dtype(number))
    return numpy_helper.from_array(cast, name)


def _of_types(
    node: NodeProto, schema: OpSchema, before: Mapping[str, int], types: Mapping[str, int]
) -> NodeProto:
    """Return a node whose attributes that name or have an element type are of `types`."""
    copy = NodeProto()
    copy.CopyFrom(node)
    attribute, variable = OF_TYPE.get(schema.name, ("", ""))
    if variable in types and attribute in schema.attributes:
        kept = [each for each in copy.attribute if each.name != attribute]
        del copy.attribute[:]
        copy.attribute.extend([*kept, helper.make_attribute(attribute, types[variable])])
    changed = {before[name]: number for name, number in types.items() if before[name] != number}
    for tensor in _tensors(copy):
        if tensor.data_type in changed:
            array = numpy_helper.to_array(tensor)
            tensor.CopyFrom(_tensor(tensor.name, array, changed[tensor.data_type]))
    for each in copy.attribute:
        if each.type == AttributeProto.GRAPH:
            for value in (*each.g.input, *each.g.output, *each.g.value_info):
                found = _tensor_of(value.type)
                found.elem_type = changed.get(found.elem_type, found.elem_type)
    return copy
