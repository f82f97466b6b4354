"""The source node behind an operation, for the errors of a call."""

from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Operation


def source_of(op: Operation) -> str:
    """Return the nodes of the model that `op` came from, or else its own name."""
    nodes = op.attributes.get("lamina.src")
    if not isinstance(nodes, ArrayAttr):
        return op.name
    return ", ".join(node.data for node in cast("ArrayAttr[Any]", nodes)) or op.name
