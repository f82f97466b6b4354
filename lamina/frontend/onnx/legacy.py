"""Operators before version 7: which are still the same, and how their operands were aligned."""

from __future__ import annotations

from typing import Final

from lamina.dialects.dims import Dim
from lamina.errors import UnsupportedError
from lamina.frontend.onnx.node import Node

BROADCASTS: Final = 7
"""The operator set from which on shapes are put side by side from their ends, as in NumPy."""

_KNOWN: Final = 6
"""The oldest operator set whose operators are all known."""


def align_operand(node: Node) -> None:
    """Give the second operand ones behind its dimensions, which began at the attribute `axis`.

    So it is with every operator of version 6 that has `broadcast`. Raises `UnsupportedError` for
    an operator of an older set that had another form then.
    """
    if not is_same(node.op, node.version):
        raise UnsupportedError(
            f"{node.where}: the form it had in operator set {node.version} is not supported: "
            f"convert the model to {BROADCASTS} or newer"
        )
    if not (node.given("broadcast") and node.given("axis") and node.has(1)):
        return
    a, b = node.value(0), node.value(1)
    first = node.axis(node.get_int("axis"), len(a.shape))
    behind = len(a.shape) - first - len(b.shape)
    if behind < 0:
        raise node.fault(f"operands of rank {len(a.shape)} and {len(b.shape)} at axis {first}")
    if behind and node.get_int("broadcast"):
        x = node.x(1)
        node.inputs[1] = node.reshape(x, [*x.shape, *[Dim.of(1)] * behind])


def is_same(op: str, version: int) -> bool:
    """Whether an operator of a set means what it means in the oldest that is known, or is newer."""
    from onnx import defs

    if version >= _KNOWN:
        return True
    try:
        versions = [defs.get_schema(op, n).since_version for n in (version, _KNOWN)]
    except defs.SchemaError:
        return False
    return versions[0] == versions[1]
