"""Which thread of a warp holds which element of a matrix (PTX ISA 9.7.14.5)."""

from __future__ import annotations

from functools import cache

import numpy as np

from lamina.targets.reference.dtypes import Array

_LANE = np.arange(32)
GROUP, THREAD = _LANE // 4, _LANE % 4
"""Threads are four to a group: the group gives a row, the thread in it columns."""


@cache
def left(m: int, k: int, per: int) -> tuple[int, Array]:
    """Return how many registers of `per` elements hold A[m, k], and where each element is.

    The place of an element counts elements of registers of lanes: lane · registers · per + ….
    """
    rows = m // 8
    registers = m * k // (32 * per)
    row = np.empty((32, registers, per), np.int64)
    column = np.empty_like(row)
    for register in range(registers):
        row[:, register, :] = (GROUP + 8 * (register % rows))[:, None]
        start = register // rows * 4 * per
        column[:, register, :] = start + THREAD[:, None] * per + np.arange(per)
    return registers, _places(row, column, m, k)


@cache
def right(k: int, n: int, per: int) -> tuple[int, Array]:
    """Return the same for B[k, n], n = 8."""
    registers = k * n // (32 * per)
    row = np.empty((32, registers, per), np.int64)
    column = np.empty_like(row)
    for register in range(registers):
        row[:, register, :] = register * 4 * per + THREAD[:, None] * per + np.arange(per)
        column[:, register, :] = GROUP[:, None]
    return registers, _places(row, column, k, n)


@cache
def result(m: int, n: int) -> tuple[int, Array]:
    """Return how many elements a lane holds of C[m, n], n = 8, and where each element is."""
    elements = m * n // 32
    row = np.empty((32, elements, 1), np.int64)
    column = np.empty_like(row)
    for element in range(elements):
        row[:, element, 0] = GROUP + 8 * (element // 2)
        column[:, element, 0] = 2 * THREAD + element % 2
    return elements, _places(row, column, m, n)


def _places(row: Array, column: Array, rows: int, columns: int) -> Array:
    found: Array = np.full(rows * columns, -1, np.int64)
    found[(row * columns + column).ravel()] = np.arange(rows * columns)
    return found
