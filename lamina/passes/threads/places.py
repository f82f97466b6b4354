"""Where the registers of a thread are in a tile: coordinates and numbers of their elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from xdsl.ir import SSAValue

from lamina.dialects.layouts import Digit, Layout, row_strides
from lamina.passes.threads.writer import Number, Writer

Table = npt.NDArray[np.int64]
"""For each thread and register the number of an element."""


@dataclass(frozen=True)
class View:
    """Elements of a tile, by the coordinates of another: `start + sum(strides * coordinates)`."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    start: int = 0

    @staticmethod
    def rows(shape: Sequence[int]) -> View:
        """Return the view of a tile of `shape` itself."""
        return View(tuple(shape), row_strides(shape))

    def table(self, layout: Layout, threads: int) -> Table:
        """Return which element each register of each thread is to have."""
        flat = layout.table(threads)
        total = np.full(flat.shape, self.start, np.int64)
        for n, stride, weight in zip(
            self.shape, self.strides, row_strides(self.shape), strict=True
        ):
            total += flat // weight % n * stride if weight else 0
        return total

    def run(self, layout: Layout, threads: int, most: int = 8) -> int:
        """Return how many registers at a time are neighbours that begin at a multiple of them.

        It is a power of two, at most `most`.
        """
        places = self.table(layout, threads)
        for run in (16, 8, 4, 2):
            if run <= most and places.shape[1] % run == 0:
                runs = places.reshape(-1, run)
                first = runs[:, :1]
                if not (first % run).any() and (runs == first + np.arange(run)).all():
                    return run
        return 1


class Places:
    """Index arithmetic of one thread, all of it ahead of the kernel and once."""

    def __init__(self, writer: Writer, thread: SSAValue, threads: int) -> None:
        self._writer = writer
        self._thread = thread
        self._threads = threads
        self._digits: dict[tuple[int, int], Number] = {}
        self._numbers: dict[tuple[Layout, View], Number] = {}
        self._owners: dict[tuple[Digit, ...], SSAValue | None] = {}

    def number(self, layout: Layout, view: View) -> Number:
        """Return the number of the element for each register: a vector, or one for all."""
        key = (layout, view)
        if key not in self._numbers:
            with self._writer.ahead():
                self._numbers[key] = self._number(layout, view)
        return self._numbers[key]

    def coordinate(self, layout: Layout, shape: Sequence[int], dim: int) -> Number:
        """Return the coordinate of a thread's elements in one dimension, by register."""
        strides = tuple(int(d == dim) for d in range(len(shape)))
        return self.number(layout, View(tuple(shape), strides))

    def owner(self, layout: Layout) -> SSAValue | None:
        """Return whether this thread is the first that has its elements; None if all are."""
        if layout.threads not in self._owners:
            with self._writer.ahead():
                self._owners[layout.threads] = self._owner(layout.threads)
        return self._owners[layout.threads]

    def digits(self, layout: Layout) -> list[tuple[int, Digit]]:
        """Return each digit of the thread's number with the product of those before it."""
        found: list[tuple[int, Digit]] = []
        div = 1
        for digit in layout.threads:
            found.append((div, digit))
            div *= digit[0]
        return found

    def digit(self, div: int, size: int) -> Number:
        """Return a digit of the thread's number: `thread / div % size`."""
        if (div, size) not in self._digits:
            with self._writer.ahead():
                quotient = self._writer.quotient(self._thread, div)
                whole = div * size >= self._threads
                self._digits[div, size] = quotient if whole else self._writer.rest(quotient, size)
        return self._digits[div, size]

    def _number(self, layout: Layout, view: View) -> Number:
        moved = layout.mapped(view.shape, dict(enumerate(view.strides)))
        if moved is None:
            return self._by_division(layout, view)
        # A register whose digits went has the place of the one that stays.
        return self._writer.sum(
            self._base(moved), self._writer.numbers([int(n) for n in view.table(layout, 1)[0]])
        )

    def _base(self, layout: Layout) -> Number:
        terms = [
            self._writer.product(self.digit(div, size), weight)
            for div, (size, weight) in self.digits(layout)
            if weight
        ]
        return self._writer.sum(*terms)

    def _by_division(self, layout: Layout, view: View) -> Number:
        writer = self._writer
        flat = writer.sum(self._base(layout), writer.numbers(layout.offsets))
        total: Number = view.start
        for n, stride, weight in zip(
            view.shape, view.strides, row_strides(view.shape), strict=True
        ):
            if stride and n > 1:
                part = writer.rest(writer.quotient(flat, weight), n)
                total = writer.sum(total, writer.product(part, stride))
        return total

    def _owner(self, digits: tuple[Digit, ...]) -> SSAValue | None:
        masks: list[SSAValue] = []
        div = 1
        for size, weight in digits:
            if not weight:
                masks.append(self._writer.test("eq", self.digit(div, size), 0))
            div *= size
        if div < self._threads:
            masks.append(self._writer.test("lt", self._thread, div))
        return self._writer.both(masks)
