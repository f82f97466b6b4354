"""Unsigned numbers in kernels, whose integers have no sign: the operations that are theirs."""

from __future__ import annotations

from typing import Any, Final, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, i1
from xdsl.ir import Attribute, Operation, SSAValue

from lamina.dialects import tile
from lamina.dialects.tensors import is_unsigned, signless
from lamina.passes.kernels.emit import Emit

UNSIGNED: Final[dict[type[Operation], type[Any]]] = {
    arith.DivSIOp: arith.DivUIOp,
    arith.MaxSIOp: arith.MaxUIOp,
    arith.MinSIOp: arith.MinUIOp,
    arith.RemSIOp: arith.RemUIOp,
}
"""The operation on unsigned numbers that is what another one is on signed numbers."""


def on(kind: type[Any], element: Attribute) -> type[Any]:
    """Return the operation that is `kind` on elements of a tensor of `element`; true is 1."""
    return UNSIGNED.get(kind, kind) if is_unsigned(element) or element == i1 else kind


def ordered(emit: Emit, x: SSAValue, element: Attribute) -> SSAValue:
    """Return numbers that compare as signed ones like `x`, of tensors of `element`, by its order.

    The top bit of an unsigned number is turned over; doing it again gives the number.
    """
    if not is_unsigned(element):
        return x
    kind = cast("IntegerType[Any]", signless(element))
    top = emit.full(-(1 << kind.width.data - 1), kind, tile.shape_of(x.type))
    return emit.binary(arith.XOrIOp, x, top)


def extremes(emit: Emit, x: SSAValue, kind: str, element: Attribute) -> SSAValue:
    """Return `ordered` numbers for a reduction that takes extremes, `x` for another."""
    return ordered(emit, x, element) if kind in ("max", "min") else x
