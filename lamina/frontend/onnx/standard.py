"""What the standard says of its operators: the functions that some are, and usual attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lamina.frontend.onnx.values import Array, Several, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onnx import AttributeProto, FunctionProto, NodeProto, TypeProto


def standard_function(
    proto: NodeProto, domain: str, version: int, inputs: Sequence[Value]
) -> FunctionProto | None:
    """Return the body that the standard gives an operator, if it gives it one."""
    import onnx
    from onnx import defs

    try:
        schema: Any = defs.get_schema(proto.op_type, version, domain)
    except defs.SchemaError:
        return None
    if schema.has_function:
        return schema.function_body
    if not schema.has_context_dependent_function:
        return None
    types = [_type_of(value).SerializeToString() for value in inputs]
    body = schema.get_context_dependent_function(proto.SerializeToString(), types)
    function = onnx.FunctionProto()
    function.ParseFromString(body)
    return function if function.node else None


def standard_defaults(proto: NodeProto, opsets: Mapping[str, int]) -> dict[str, AttributeProto]:
    """Return what the attributes of an operator of the standard are where they are not given."""
    from onnx import defs

    domain = "" if proto.domain == "ai.onnx" else proto.domain
    schema = defs.get_schema(proto.op_type, opsets.get(domain, 1), domain)
    found = {name: each.default_value for name, each in schema.attributes.items()}
    return {name: value for name, value in found.items() if value.name}


def _type_of(value: Value) -> TypeProto:
    """Return the type of an input; the package onnx crashes at sequences that have none."""
    import onnx

    if isinstance(value, Several):
        known = next((each for each in value.values if each is not None), None)
        inner = onnx.helper.make_tensor_type_proto(1, None) if known is None else _type_of(known)
        return onnx.helper.make_sequence_type_proto(inner)
    return onnx.TypeProto() if value is None else type_of_array(value)


def type_of_array(value: Array) -> TypeProto:
    """Return the type of a tensor, with the names of its symbols."""
    from onnx import helper

    shape = [n.constant if n.constant is not None else str(n) for n in value.shape]
    return helper.make_tensor_type_proto(value.kind.number, shape)
