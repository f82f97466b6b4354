"""The tiles that threads can share: those that have elements, in dimensions."""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import VectorType
from xdsl.ir import Attribute

from lamina.dialects import tile
from lamina.errors import LoweringError


def check_tiles(kernel: tile.KernelOp) -> None:
    """Raise LoweringError, naming the operation, for a tile of no elements or no dimensions."""
    for op in kernel.walk():
        for kind in op.result_types:
            if fault := _fault(kind):
                name = kernel.sym_name.data
                raise LoweringError(f"kernel {name}: {op.name} gives {kind}, a tile of no {fault}")


def _fault(kind: Attribute) -> str:
    shape, element = tile.shape_of(kind), tile.element_of(kind)
    if not isinstance(kind, VectorType):
        return ""
    if not shape:
        return f"dimensions: expected {element}, a scalar"
    return "" if prod(shape) else "elements: leave it out, for there is nothing to do"
