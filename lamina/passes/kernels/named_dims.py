"""Extents that operations name in their properties, and not in a type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from xdsl.ir import Operation

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.passes.kernels.general_geometry import (
    GEOMETRY,
    NUMBER,
    SAID,
    geometry_of,
    number_of,
)

_NAMED: Final[dict[type[Operation], tuple[tuple[str, ...], Callable[[Any], tuple[Dim, ...]]]]] = {
    nn.ExtentsOp: (("dims",), lambda op: op.extents),
    nn.PadOp: (("high", "low"), lambda op: (*op.lows, *op.highs)),
    nn.SliceOp: (("start",), lambda op: op.starts),
    nn.SortOp: (("k",), lambda op: () if op.kept is None else (op.kept,)),
}
"""The properties that hold extents, and what reads them."""


def named_dims(op: Operation) -> tuple[Dim, ...]:
    """Return the extents that an operation's properties name, or what is in their place."""
    if type(op) in _NAMED:
        return _NAMED[type(op)][1](op)
    if (number := number_of(op)) is not None:
        return (number,)
    return tuple(
        dim for side in geometry_of(op) for dim in (side.size, side.low, side.high, side.step)
    )


def naming(op: Operation) -> tuple[str, ...]:
    """Return the properties in which an operation names extents, or which these are in place of."""
    if type(op) in _NAMED:
        return _NAMED[type(op)][0]
    if NUMBER in op.attributes:
        return ("value",)
    return SAID if GEOMETRY in op.attributes else ()
