"""What a name of a graph stands for while it is imported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from xdsl.ir import SSAValue

from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents
from lamina.dialects.text_codes import code_of
from lamina.frontend.model import MOST_READ
from lamina.frontend.onnx.kinds import INT64, Kind

HIGHEST_RANK: Final = 64
"""How many dimensions a tensor may have: as many as NumPy's arrays."""


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor that the graph computes, or an input."""

    value: SSAValue
    kind: Kind

    @property
    def shape(self) -> tuple[Dim, ...]:
        """Its extents."""
        return extents(self.value.type)


@dataclass(frozen=True, eq=False)
class Known:
    """A few elements whose values are known now; integers may be extents (`Dim`).

    `array` is of NumPy's plain dtype, or of objects if any of its elements is symbolic. `weight`
    names the tensor of the file that has these values, if one has.
    """

    array: npt.NDArray[Any]
    kind: Kind
    weight: str | None = None

    @property
    def shape(self) -> tuple[Dim, ...]:
        """Its extents."""
        return tuple(Dim.of(n) for n in self.array.shape)

    @property
    def is_plain(self) -> bool:
        """Whether no element is symbolic."""
        return self.array.dtype != np.object_ or self.kind.is_text


@dataclass(frozen=True, eq=False)
class Stored:
    """A tensor of the file that is too large to be looked at."""

    weight: str
    dims: tuple[int, ...]
    kind: Kind

    @property
    def shape(self) -> tuple[Dim, ...]:
        """Its extents."""
        return tuple(Dim.of(n) for n in self.dims)


@dataclass(frozen=True, eq=False)
class Several:
    """A sequence of values."""

    values: tuple[Value, ...]


Array = Tensor | Known | Stored
"""A value that is a tensor."""

Value = Array | Several | None
"""A value; None is an optional without one."""


def known_dims(dims: Sequence[Dim | int]) -> Known:
    """Return extents as a vector of i64."""
    return known_integers(np.array([Dim.of(n) for n in dims], np.object_), INT64)


def known_integers(elements: npt.NDArray[Any], kind: Kind) -> Known:
    """Return integers some of which may be extents; plain if none is symbolic."""
    flat = [n.constant if isinstance(n, Dim) else int(n) for n in elements.ravel().tolist()]
    if all(n is not None for n in flat):
        plain = np.array(flat, np.object_).reshape(elements.shape)
        return Known(wrapped(plain, kind), kind)
    return Known(elements, kind)


def wrapped(elements: npt.NDArray[Any], kind: Kind) -> npt.NDArray[Any]:
    """Return Python integers as elements of `kind`, modulo its width."""
    if kind.bits == 1:
        return elements.astype(np.bool_)
    mask = (1 << kind.bits) - 1
    low = np.array([int(n) & mask for n in elements.ravel()], np.uint64)
    return low.astype(f"u{kind.dtype.itemsize}").view(kind.dtype).reshape(elements.shape)


def codes_of(texts: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return the codes of an array of str."""
    codes = [code_of(text) for text in texts.ravel().tolist()]
    return np.array(codes, np.int64).reshape(texts.shape)


def is_small(shape: Sequence[Dim | int]) -> bool:
    """Whether a tensor of this shape may be looked at."""
    size = 1
    for n in shape:
        constant = Dim.of(n).constant
        if constant is None:
            return False
        size *= constant
    return size <= MOST_READ
