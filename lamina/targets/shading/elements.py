"""Which element types a language has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from xdsl.ir import Attribute

from lamina.dialects.tile import element_of
from lamina.errors import LoweringError

E = TypeVar("E")


def finder(target: str, elements: Mapping[str, E]) -> Callable[[Attribute], E]:
    """Return what gives the element of a scalar, vector or memref type, by its name in the IR.

    It raises LoweringError for a type that the target has not.
    """
    known = ", ".join(elements)

    def element(type: Attribute) -> E:
        name = str(element_of(type))
        if name == "f64":
            raise LoweringError(f"{target} has no 64-bit floats")
        if name not in elements:
            raise LoweringError(f"{target} has no registers for {name}: expected one of {known}")
        return elements[name]

    return element
