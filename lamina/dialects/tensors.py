"""Tensor types whose `?` extents have names: `tensor<?x576xf32, #nn.dims<["T"]>>`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    IntegerType,
    Signedness,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.exceptions import VerifyException

from lamina.dialects.dims import Dim, parse_dim

ui8, ui16, ui32, ui64 = (IntegerType(bits, Signedness.UNSIGNED) for bits in (8, 16, 32, 64))
"""The element types of whole numbers from 0 on; kernels have them without a sign."""

DYNAMIC = DYNAMIC_INDEX
"""How the builtin tensor and memref types spell an extent of `?`."""


@irdl_attr_definition
class DimsAttr(ParametrizedAttribute):
    """The extents behind the `?` of a tensor type, in order, each the canonical text of a `Dim`."""

    name = "nn.dims"

    dims: ArrayAttr[StringAttr]

    def verify(self) -> None:
        """Refuse text that is not canonical, or that is a plain number."""
        for entry in self.dims:
            try:
                dim = parse_dim(entry.data)
            except ValueError as error:
                raise VerifyException(str(error)) from error
            if str(dim) != entry.data:
                raise VerifyException(f"extent {entry.data!r} is not canonical: write {dim}")
            if dim.constant is not None:
                raise VerifyException(f"extent {entry.data!r} is a number: write it in the shape")


def tensor(element: Attribute, dims: Iterable[Dim | int | str]) -> TensorType[Any]:
    """Return the tensor type of `element` with these extents, symbolic ones named."""
    extents = [Dim.of(dim) for dim in dims]
    shape = [DYNAMIC if dim.constant is None else dim.constant for dim in extents]
    names = [StringAttr(str(dim)) for dim in extents if dim.constant is None]
    return (
        TensorType(element, shape, DimsAttr(ArrayAttr(names)))
        if names
        else TensorType(element, shape)
    )


def extents(type: Attribute) -> tuple[Dim, ...]:
    """Return every extent of a tensor type; VerifyException if a `?` has no name."""
    kind = cast("TensorType[Any]", type)
    shape = kind.get_shape()
    names = kind.encoding.dims.data if isinstance(kind.encoding, DimsAttr) else ()
    if sum(size == DYNAMIC for size in shape) != len(names):
        raise VerifyException(f"{kind}: every `?` needs its entry in #nn.dims")
    rest = iter(names)
    return tuple(parse_dim(next(rest).data) if s == DYNAMIC else Dim.of(s) for s in shape)


def is_unsigned(element: Attribute) -> bool:
    """Whether an element type has whole numbers from 0 on: `ui8`, `ui16`, `ui32` or `ui64`."""
    return (
        isinstance(element, IntegerType)
        and cast("IntegerType[Any, Any]", element).signedness.data == Signedness.UNSIGNED
    )


def signless(element: Attribute) -> Attribute:
    """Return the type by which kernels hold an element: that of as many bits, without a sign."""
    if not is_unsigned(element):
        return element
    return IntegerType(cast("IntegerType[Any, Any]", element).width.data)
