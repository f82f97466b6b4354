"""How a reshape and the transpose before it change places."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product as pairs_of
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.dialects.func import FuncOp

from lamina.dialects import nn
from lamina.dialects.dims import Dim, parse_dim, product
from lamina.dialects.tensors import extents

Shape = tuple[Dim, ...]
Order = tuple[int, ...]
"""Dimension i of a transposed tensor is dimension order[i] of the tensor before."""

Same = Callable[[Dim, Dim], bool]
"""Whether two extents are equal in every call that is not refused."""


@dataclass(frozen=True)
class Exchange:
    """reshape(transpose(x)) = transpose(reshape(transpose(x, before), shape), after)."""

    before: Order
    shape: Shape
    after: Order


@dataclass(frozen=True)
class _Part:
    """Neighbouring dimensions of a transposed tensor, and those that a reshape makes of them."""

    source: tuple[int, ...]
    target: tuple[int, ...]


def equal_extents(function: FuncOp) -> Same:
    """Return what tells equal extents of a function, by what it says of them."""
    found: set[tuple[Dim, Dim]] = set()
    said = function.attributes.get("lamina.equal")
    rows = cast("ArrayAttr[ArrayAttr[StringAttr]]", said) if isinstance(said, ArrayAttr) else ()
    for row in rows:
        a, b = (parse_dim(text.data) for text in row.data[:2])
        found |= {(a, b), (b, a)}
    return lambda a, b: a == b or (a, b) in found


def exchange(op: nn.ReshapeOp, order: Order, same: Same) -> Exchange | None:
    """Return how a reshape of a tensor transposed by `order` comes before the transpose.

    None if the elements of a dimension would come from parts of several, or if it is only assumed
    that there are as many, and extents are not equal one by one. `before` is in order where no
    transpose is needed there.
    """
    x, y = extents(op.x.type), extents(op.y.type)
    if op.assumed is None:
        parts = _parts(x, y)
    elif len(x) == len(y) and all(map(same, x, y)):
        parts = [_Part((d,), (d,)) for d in range(len(x))]
    else:
        return None
    if any(len(part.source) > 1 < len(part.target) for part in parts):
        return None
    places = _places(parts, order, x)
    placed = [part for _, part in sorted(zip(places, parts, strict=True), key=lambda each: each[0])]
    before = tuple(order[d] for part in placed for d in part.source)
    kept = [d for d in before if x[order.index(d)] != 1]
    if kept == sorted(kept):
        before = tuple(range(len(order)))
    targets = [d for part in placed for d in part.target]
    after = tuple(targets.index(d) for d in range(len(y)))
    return Exchange(before, tuple(y[d] for d in targets), after)


def _places(parts: Sequence[_Part], order: Order, x: Shape) -> list[int]:
    """Return what parts are sorted by: where the last of their elements were, or what is before."""
    places: list[int] = []
    for part in parts:
        wide = [d for d in part.source if x[d] != 1] or part.source
        before = places[-1] if places else -1
        places.append(max((order[d] for d in wide), default=before))
    return places


def _parts(x: Shape, y: Shape) -> list[_Part]:
    """Return the least parts of two shapes that have as many elements, in order."""
    parts: list[_Part] = []
    i = j = 0
    while i < len(x) or j < len(y):
        m, n = _step(x[i:], y[j:])
        parts.append(_Part(tuple(range(i, i + m)), tuple(range(j, j + n))))
        i, j = i + m, j + n
    return parts


def _step(x: Shape, y: Shape) -> tuple[int, int]:
    """Return how many dimensions of each begin with as many elements; those of 1 are apart."""
    if x and x[0] == 1:
        return 1, 0
    if y and y[0] == 1:
        return 0, 1
    counts = sorted(pairs_of(range(1, len(x) + 1), range(1, len(y) + 1)), key=sum)
    equal = ((m, n) for m, n in counts if product(x[:m]) == product(y[:n]))
    return next(equal, (len(x), len(y)))


def is_free(shape: Sequence[Dim], order: Sequence[int]) -> bool:
    """Whether a transpose leaves the elements of a tensor of `shape` in their order."""
    kept = [d for d in order if shape[d] != 1]
    return kept == sorted(kept)
