"""Multiply vectors by a small matrix of known numbers, in few operations."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from lamina.dialects import tile
from lamina.passes.kernels.emit import Emit

Row = tuple[Fraction, ...]


def combined(emit: Emit, matrix: Sequence[Row], xs: Sequence[SSAValue]) -> list[SSAValue]:
    """Return the sums of vectors of floats that the rows of a matrix weigh.

    Of two rows that are each other with every second number negated, the parts are summed once.
    """
    found: dict[int, SSAValue] = {}
    for i, row in enumerate(matrix):
        if i in found:
            continue
        mirrored = tuple(n if k % 2 == 0 else -n for k, n in enumerate(row))
        twin = next((j for j in range(i + 1, len(matrix)) if matrix[j] == mirrored), None)
        even = tuple(n if k % 2 == 0 else Fraction(0) for k, n in enumerate(row))
        odd = tuple(n if k % 2 else Fraction(0) for k, n in enumerate(row))
        if twin is None or not any(even) or not any(odd):
            found[i] = _sum(emit, row, xs)
            continue
        a, b = _sum(emit, even, xs), _sum(emit, odd, xs)
        found[i], found[twin] = emit.binary(arith.AddfOp, a, b), emit.binary(arith.SubfOp, a, b)
    return [found[i] for i in range(len(matrix))]


def _sum(emit: Emit, row: Row, xs: Sequence[SSAValue]) -> SSAValue:
    """Return the sum of vectors times their numbers; at least one number is not 0."""
    terms = [(n, x) for n, x in zip(row, xs, strict=True) if n]
    terms.sort(key=lambda term: term[0] != 1)
    (first, total), *rest = terms
    if first != 1:
        total = emit.binary(arith.MulfOp, total, _full(emit, first, total))
    for n, x in rest:
        if n in (1, -1):
            total = emit.binary(arith.AddfOp if n == 1 else arith.SubfOp, total, x)
        else:
            total = emit.fma(x, _full(emit, n, x), total)
    return total


def _full(emit: Emit, number: Fraction, like: SSAValue) -> SSAValue:
    return emit.full(float(number), tile.element_of(like.type), tile.shape_of(like.type))
