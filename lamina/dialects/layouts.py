"""Where the elements of a tile are: in which thread, and in which of its registers.

Elements are numbered row by row. A layout is a list of digits for the thread's number and one for
the register's, each `(size, weight)`, the fastest first: thread 5 under `(4, 1), (2, 16)` has the
digits 1 and 1, and holds the elements from 17 on. The element's number is the sum of the weights
of all digits, so that it splits into a part of the thread and a part of the register. A weight of
0 is a digit that changes nothing: several threads hold the same element. Threads beyond the
digits begin anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd, isqrt, prod
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition

from lamina.dialects.pairs import pair_list, pairs
from lamina.dialects.requirements import require

Digit = tuple[int, int]
"""How many values a digit has, and how many elements lie between two of them."""

LAYOUT = "tile.layout"
"""The attribute of an operation that lists the layouts of its vector results."""


@irdl_attr_definition
class LayoutAttr(ParametrizedAttribute):
    """The digits of a layout: `#tile.layout<[[4, 1], [2, 16]], [[2, 8]]>`."""

    name = "tile.layout"

    threads: ArrayAttr
    registers: ArrayAttr

    @staticmethod
    def of(layout: Layout) -> LayoutAttr:
        """Return a layout as an attribute."""
        return LayoutAttr(pair_list(layout.threads), pair_list(layout.registers))

    @property
    def layout(self) -> Layout:
        """The layout that it spells."""
        return Layout(pairs(self.threads), pairs(self.registers))

    def verify(self) -> None:
        """Check the digits."""
        for size, weight in (*pairs(self.threads), *pairs(self.registers)):
            require(size > 0 and weight >= 0, f"a digit of size {size} and weight {weight}")


@dataclass(frozen=True)
class Layout:
    """The digits of the thread's number and of the register's, the fastest first."""

    threads: tuple[Digit, ...]
    registers: tuple[Digit, ...]

    @staticmethod
    def of(threads: Sequence[Digit], registers: Sequence[Digit]) -> Layout:
        """Return the layout of these digits, neighbours that fit made one."""
        return Layout(_merged(threads), _merged(registers))

    @cached_property
    def count(self) -> int:
        """The registers of a thread."""
        return prod(size for size, _ in self.registers)

    @cached_property
    def span(self) -> int:
        """The threads after which the elements begin anew."""
        return prod(size for size, _ in self.threads)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """The part of each register in the number of its element."""
        return tuple(int(n) for n in _sums(self.registers))

    def bases(self, threads: int) -> npt.NDArray[np.int64]:
        """Return the part of each of `threads` threads in the number of its elements."""
        return np.resize(_sums(self.threads), threads)

    def table(self, threads: int) -> npt.NDArray[np.int64]:
        """Return the number of each thread's elements, `[threads, registers]`."""
        return self.bases(threads)[:, None] + np.array(self.offsets, np.int64)

    def mapped(self, shape: Sequence[int], strides: Mapping[int, int]) -> Layout | None:
        """Return the layout whose elements are numbered by `strides` instead of row by row.

        `shape` is this layout's, and `strides` gives new weights for some of its dimensions; of
        the others, threads hold copies and registers go. None if a digit lies across dimensions.
        """
        threads, registers = _split(self.threads, shape), _split(self.registers, shape)
        if threads is None or registers is None:
            return None
        moved = [(size, strides.get(dim, 0) * step) for size, dim, step in threads]
        kept = [(n, strides[dim] * step) for n, dim, step in registers if strides.get(dim)]
        return Layout(_merged(moved), _merged(kept))

    def part(
        self, shape: Sequence[int], dim: int, size: int, strides: Sequence[int]
    ) -> Layout | None:
        """Return the layout of a tile of `size` elements along `dim`, one of several side by side.

        Each part lies as the first one does; where that has no elements of a thread, it has copies.
        None if digits lie across dimensions, or the size.
        """
        threads, registers = _split(self.threads, shape), _split(self.registers, shape)
        if threads is None or registers is None:
            return None
        moved = [_cut(digit, dim, size, strides) for digit in threads]
        kept = [_cut(digit, dim, size, strides) for digit in registers]
        if None in moved or None in kept:
            return None
        held = [digit for digits in kept for digit in digits or () if digit[1]]
        return Layout(_merged([d for digits in moved for d in digits or ()]), _merged(held))

    def thread_digits(self, shape: Sequence[int]) -> list[tuple[int, int, int]]:
        """Return the digits of the thread's number as (size, dimension, distance in it).

        The dimension is -1 where threads hold copies. ValueError if a digit lies across dimensions.
        """
        found = _split(self.threads, shape)
        if found is None:
            raise ValueError(f"{self.threads} lies across the dimensions of {tuple(shape)}")
        return found

    def with_registers(self, more: Sequence[Digit]) -> Layout:
        """Return the layout with further digits of the register's number, the slowest."""
        return Layout(self.threads, _merged([*self.registers, *more]))

    def holds(self, elements: int) -> bool:
        """Tell whether each of `elements` elements, and no other, is somewhere."""
        found = np.unique(self.table(self.span))
        return len(found) == elements and (not elements or found[-1] == elements - 1)


def row_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the weight of each dimension in the number of an element."""
    return tuple(prod(shape[d + 1 :]) for d in range(len(shape)))


def spread(shape: Sequence[int], threads: int, run: int = 1) -> Layout:
    """Return the layout in which neighbouring threads hold neighbouring elements.

    Of the last dimension a thread has `run` at once, or fewer where threads would have none.
    """
    while run > 1 and (prod(shape) < threads * run or shape[-1] % run):
        run -= 1
    held: list[Digit] = []
    kept: list[Digit] = [(run, 1)]
    left = threads
    runs = [*shape[:-1], shape[-1] // run]
    for size, row in reversed(list(zip(runs, row_strides(shape), strict=True))):
        stride = run if row == 1 else row
        share = _largest_divisor(size, left)
        held.append((share, stride))
        kept.append((size // share, stride * share))
        left //= share
    return Layout(_merged(held), _merged(kept))


def blocked(shape: Sequence[int], threads: int) -> Layout:
    """Return the layout of a sum of products: a thread's registers span rows and columns alike."""
    each = max(1, prod(shape) // threads)
    columns = _largest_divisor(shape[-1], isqrt(each)) if shape else 1
    held: list[Digit] = []
    kept: list[Digit] = []
    left = threads
    for d, (size, stride) in reversed(list(enumerate(zip(shape, row_strides(shape), strict=True)))):
        room = size // columns if d == len(shape) - 1 else size
        share = _largest_divisor(room, left)
        held.append((share, stride))
        kept.append((size // share, stride * share))
        left //= share
    return Layout(_merged(held), _merged(kept))


SUBGROUP = 32
"""The threads that hold a fragment of a matrix unit."""


@dataclass(frozen=True)
class Fragments:
    """The layouts of a product `[m, k] [k, n]` made of fragments: 16 by k, k by 8 and 16 by 8.

    `rows` by `columns` subgroups share the product; a thread's run of columns of K has `run`
    elements, so that a fragment has 8 · run of them.
    """

    m: int
    n: int
    k: int
    run: int
    rows: int
    columns: int

    @staticmethod
    def of(
        m: int, n: int, k: int, bits: int, threads: int, *, warpgroups: bool = False
    ) -> Fragments | None:
        """Return how `threads` threads multiply elements of so many bits; None if they cannot.

        A warpgroup of four subgroups has 64 rows and all columns; several have rows in turn.
        """
        run = 32 // bits
        if warpgroups:
            rows = threads // SUBGROUP
            fits = bits == 16 and m and rows % 4 == 0 and m % (16 * rows) == 0
            fits = fits and n % 8 == 0 and n <= 256 and k % 16 == 0
            return Fragments(m, n, k, run, rows, 1) if fits else None
        if not m or m % 16 or n % 8 or k % (8 * run) or threads % SUBGROUP:
            return None
        subgroups = threads // SUBGROUP
        ways = [
            (rows, subgroups // rows)
            for rows in range(1, subgroups + 1)
            if subgroups % rows == 0 and m // 16 % rows == 0 and n // 8 % (subgroups // rows) == 0
        ]
        if not ways:
            return None
        # What is read of both operands is least where a subgroup's part is nearly square.
        rows, columns = min(ways, key=lambda way: m // way[0] + n // way[1])
        return Fragments(m, n, k, run, rows, columns)

    @property
    def _runs(self) -> tuple[int, int]:
        """Columns of K between the runs of neighbouring threads, and between a thread's two.

        Sums of 8-bit integers are exact in any order: there a thread's runs are neighbours, those
        of both halves of bytes that hold two numbers each.
        """
        return (2 * self.run, self.run) if self.run == 4 else (self.run, 4 * self.run)

    @property
    def _wide(self) -> bool:
        """Whether a subgroup's part is cut into 32 columns that four fragments share.

        A thread then has of right operands of 8 bits four neighbouring columns at a time.
        """
        return self.run == 4 and self.n % (32 * self.columns) == 0

    def _columns(self, weight: int) -> tuple[list[Digit], Digit, list[Digit]]:
        """Return how columns lie: by thread, by subgroup, and by fragment."""
        if self._wide:
            apart = self.n // (32 * self.columns)
            more = [(4, weight), (apart, 32 * self.columns * weight)]
            return [(4, 4 * weight), (2, 16 * weight)], (self.columns, 32 * weight), more
        apart = self.n // (8 * self.columns)
        return [(8, weight)], (self.columns, 8 * weight), [(apart, 8 * self.columns * weight)]

    def left(self, row: int, column: int) -> Layout:
        """Return where the left operand lies, given the weights of its dimensions."""
        next_thread, next_run = self._runs
        threads = [(4, next_thread * column), (8, row), (self.columns, 0), (self.rows, 16 * row)]
        registers = [
            *((self.run, column), (2, 8 * row), (2, next_run * column)),
            (self.m // (16 * self.rows), 16 * self.rows * row),
            (self.k // (8 * self.run), 8 * self.run * column),
        ]
        return Layout.of(threads, registers)

    def right(self, row: int, column: int) -> Layout:
        """Return where the right operand lies; its rows are along K."""
        next_thread, next_run = self._runs
        by_thread, by_subgroup, by_fragment = self._columns(column)
        threads = [(4, next_thread * row), *by_thread, by_subgroup, (self.rows, 0)]
        registers = [
            *((self.run, row), (2, next_run * row), *by_fragment),
            (self.k // (8 * self.run), 8 * self.run * row),
        ]
        return Layout.of(threads, registers)

    def sums(self) -> Layout:
        """Return where the sums lie, numbered row by row."""
        _, by_subgroup, by_fragment = self._columns(1)
        pair, neighbour = (8, 4) if self._wide else (2, 1)
        threads = [(4, pair), (8, self.n), by_subgroup, (self.rows, 16 * self.n)]
        registers = [
            *((2, neighbour), (2, 8 * self.n), *by_fragment),
            (self.m // (16 * self.rows), 16 * self.rows * self.n),
        ]
        return Layout.of(threads, registers)


def _largest_divisor(n: int, most: int) -> int:
    """Return the largest divisor of `n` up to `most`, a power of two where that loses nothing."""
    if n == 0:
        return 1
    power = gcd(n, 1 << max(0, most.bit_length() - 1))
    if power * 2 > min(n, most):
        return power
    return next(d for d in range(min(n, most), 0, -1) if n % d == 0)


def _sums(digits: Sequence[Digit]) -> npt.NDArray[np.int64]:
    total = np.zeros(1, np.int64)
    for size, weight in digits:
        total = (np.arange(size)[:, None] * weight + total).reshape(-1)
    return total


def _split(digits: Sequence[Digit], shape: Sequence[int]) -> list[tuple[int, int, int]] | None:
    """Return digits as (size, dimension, distance in it); None if one lies across dimensions."""
    strides = row_strides(shape)
    found: list[tuple[int, int, int]] = []
    for size, weight in digits:
        left, at = size, weight
        if not weight:
            found.append((size, -1, 0))
            left = 1
        while left > 1:
            inside = [d for d, n in enumerate(shape) if strides[d] <= at < strides[d] * n]
            if not inside or at % strides[inside[0]]:
                return None
            step, extent = at // strides[inside[0]], shape[inside[0]]
            part = left if left * step <= extent else extent // step
            if left % part or (part < left and extent % step):
                return None
            found.append((part, inside[0], step))
            left, at = left // part, at * part
    return found


def _cut(
    digit: tuple[int, int, int], dim: int, size: int, strides: Sequence[int]
) -> list[Digit] | None:
    """Return a digit as it is in a part of `size` elements along `dim`; None if it lies across."""
    count, along, step = digit
    if along != dim:
        return [(count, strides[along] * step if along >= 0 else 0)]
    if step >= size:
        return [(count, 0)]
    inner = min(count, size // step)
    if inner < count and (size % step or count % inner):
        return None
    return [(inner, strides[dim] * step), (count // inner, 0)]


def _merged(digits: Sequence[Digit]) -> tuple[Digit, ...]:
    """Return the same digits, without those of one value, neighbours that fit made one."""
    merged: list[Digit] = []
    for size, weight in digits:
        if size == 1:
            continue
        if merged and (merged[-1][0] * merged[-1][1] == weight and (weight or not merged[-1][1])):
            merged[-1] = (merged[-1][0] * size, merged[-1][1])
        else:
            merged.append((size, weight))
    return tuple(merged)


def layouts_of(attribute: Any) -> tuple[Layout, ...]:
    """Return the layouts in the value of the attribute `tile.layout`."""
    return tuple(each.layout for each in attribute.data)
