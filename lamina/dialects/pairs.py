"""Pairs of integers as attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr


def pairs(array: ArrayAttr[Any] | None) -> tuple[tuple[int, int], ...]:
    """Return `[[a, b], …]` as pairs of integers; absent is ()."""
    if array is None:
        return ()
    rows = cast("ArrayAttr[ArrayAttr[IntegerAttr[Any]]]", array)
    return tuple((row.data[0].value.data, row.data[1].value.data) for row in rows)


def pair_list(items: Sequence[tuple[int, int]]) -> ArrayAttr[Any]:
    """Return pairs of integers as the attribute `[[a, b], …]`."""
    return ArrayAttr([ArrayAttr([IntegerAttr(a, 64), IntegerAttr(b, 64)]) for a, b in items])
