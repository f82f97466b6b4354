"""How operators before version 7 said which dimensions of their operands belong together."""

from __future__ import annotations

from typing import Final

from lamina.dialects.dims import Dim
from lamina.frontend.onnx.node import Node

BROADCASTS: Final = 7
"""The operator set from which on shapes are put side by side from their ends, as in NumPy."""


def align_operand(node: Node) -> None:
    """Give the second operand ones behind its dimensions, which began at the attribute `axis`.

    `Add` of version 1 and 6, and every other operator that has `broadcast`.
    """
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
