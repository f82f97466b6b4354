"""Matrices of minimal filtering: several results of a short filter by few multiplications.

Y = A^T ((G g) * (B^T d)) are `results` inner products of a filter g of `taps` numbers with windows
of d side by side. (A. Lavin, S. Gray: Fast algorithms for convolutional neural networks, 2015;
L. Toom, S. Cook.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final

Matrix = tuple[tuple[Fraction, ...], ...]

POINTS: Final[dict[int, tuple[Fraction, ...]]] = {
    3: (Fraction(0), Fraction(1), Fraction(-1)),
    5: (Fraction(0), Fraction(5, 8), Fraction(-5, 8), Fraction(3, 2), Fraction(-3, 2)),
}
"""Where polynomials are evaluated, beside infinity: what is there is exact in f32, and of the pairs
for five points these lose least."""


@dataclass(frozen=True)
class Filtering:
    """The transforms of data `b`, [n, n], filters `g`, [n, taps], and sums `a`, [results, n].

    n is `results + taps - 1`.
    """

    b: Matrix
    g: Matrix
    a: Matrix


@lru_cache
def filtering(results: int, taps: int) -> Filtering:
    """Return the matrices for some results of a filter; KeyError if points for it are not known."""
    points = POINTS[results + taps - 2]
    data: list[tuple[Fraction, ...]] = []
    filters: list[tuple[Fraction, ...]] = []
    for i, p in enumerate(points):
        others = [q for j, q in enumerate(points) if j != i]
        scale = Fraction(1)
        for q in others:
            scale *= p - q
        filters.append(tuple(p**k / scale for k in range(taps)))
        data.append((*_coefficients(others), Fraction(0)))
    filters.append((*[Fraction(0)] * (taps - 1), Fraction(1)))
    data.append(_coefficients(points))
    last = results - 1
    sums = tuple((*(p**k for p in points), Fraction(int(k == last))) for k in range(results))
    return Filtering(tuple(data), tuple(filters), sums)


def floats(matrix: Matrix) -> list[list[float]]:
    """Return a matrix as floats."""
    return [[float(each) for each in row] for row in matrix]


def _coefficients(roots: Iterable[Fraction]) -> tuple[Fraction, ...]:
    """Return those of the product of (x - root), the constant one first."""
    found: Sequence[Fraction] = (Fraction(1),)
    for root in roots:
        found = [
            below - root * here
            for below, here in zip((Fraction(0), *found), (*found, Fraction(0)), strict=True)
        ]
    return tuple(found)
