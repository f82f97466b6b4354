"""What a general group says in attributes: numbers that are arguments of its kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Operation

from lamina.dialects.dims import Dim

GEOMETRY: Final = "lamina.geometry"
"""The attribute of a convolution that says how its windows lie, in place of its properties."""

NUMBER: Final = "lamina.number"
"""The attribute of a constant that says its value, in place of that property."""

SAID: Final = ("dilations", "pads")
"""The properties that it is in place of."""


@dataclass(frozen=True)
class Geometry:
    """Windows along a spatial dimension: their elements, pads, and how far elements are apart."""

    size: Dim
    low: Dim
    high: Dim
    step: Dim


def geometry_of(op: Operation) -> tuple[Geometry, ...]:
    """Return what the attribute of an operation says; nothing where it has none."""
    match op.attributes.get(GEOMETRY):
        case ArrayAttr(data=names):
            dims = [Dim.of(name.data) for name in names if isinstance(name, StringAttr)]
            return tuple(Geometry(*dims[i : i + 4]) for i in range(0, len(dims), 4))
        case _:
            return ()


def say_geometry(op: Operation, sides: Sequence[Geometry]) -> None:
    """Give an operation the attribute."""
    dims = [dim for side in sides for dim in (side.size, side.low, side.high, side.step)]
    op.attributes[GEOMETRY] = ArrayAttr([StringAttr(str(dim)) for dim in dims])


def number_of(op: Operation) -> Dim | None:
    """Return the value that the attribute of a constant says; None where it has none."""
    match op.attributes.get(NUMBER):
        case StringAttr(data=name):
            return Dim.of(name)
        case _:
            return None
