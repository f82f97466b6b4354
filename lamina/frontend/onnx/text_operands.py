"""Which operators take texts: those that move elements, compare them, or have a meaning for them.

Texts are numbers in a graph, which no operator may calculate with.
"""

from __future__ import annotations

from typing import Final

from lamina.frontend.onnx.hosted_texts import TEXT_OPERATORS
from lamina.frontend.onnx.node import Node
from lamina.frontend.onnx.registry import MICROSOFT
from lamina.frontend.onnx.values import Several, Value

_ML: Final = "ai.onnx.ml"

TAKES_TEXTS: Final = frozenset(
    """
    Cast CastLike CenterCropPad Compress Concat ConcatFromSequence DepthToSpace Equal Expand
    Flatten Gather GatherElements GatherND Identity If Loop NonZero OneHot Optional
    OptionalGetElement OptionalHasElement Pad Reshape ReverseSequence Scan Scatter
    ScatterElements ScatterND SequenceAt SequenceConstruct SequenceErase SequenceInsert
    SequenceLength SequenceMap Shape Size Slice SpaceToDepth Split SplitToSequence Squeeze
    TensorScatter TfIdfVectorizer Tile Transpose Trilu Unique Unsqueeze Where
    """.split()
)
"""Operators of the standard; those of `TEXT_OPERATORS` are more."""


def check_text_operands(node: Node) -> None:
    """Raise `UnsupportedError` for an operator of the box that is given texts and takes none."""
    domain = node.proto.domain if node.proto.domain != "ai.onnx" else ""
    if domain not in ("", _ML, MICROSOFT) or not any(map(_has_texts, node.inputs)):
        return
    name = f"{domain}.{node.op}" if domain else node.op
    if name not in TAKES_TEXTS and name not in TEXT_OPERATORS:
        raise node.refuse("an input of element type string")
    if (at := _mixed(node, domain)) is not None:
        raise node.fault(f"input {at}: expected element type string as others have")
    if domain == "" and node.given("reduction") and node.get_text("reduction") != "none":
        raise node.refuse("a reduction of element type string")


def _mixed(node: Node, domain: str) -> int | None:
    """Return the index of an input that has no texts, though one of the same type has."""
    from onnx import defs

    try:
        schema = defs.get_schema(node.op, node.version, domain)
    except defs.SchemaError:
        return None
    found: dict[str, bool] = {}
    for n, value in enumerate(node.inputs):
        formal = schema.inputs[min(n, len(schema.inputs) - 1)]
        if value is not None and formal.is_homogeneous:
            has = _has_texts(value)
            if found.setdefault(formal.type_str, has) != has:
                return n
    return None


def _has_texts(value: Value) -> bool:
    if isinstance(value, Several):
        return any(map(_has_texts, value.values))
    return value is not None and value.kind.is_text
