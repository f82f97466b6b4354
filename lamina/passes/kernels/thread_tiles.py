"""Where threads that share a product hold its sums and its weights, so that they read in runs."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod
from typing import Final

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Operation, SSAValue

from lamina.dialects.layouts import LAYOUT, Digit, Layout, LayoutAttr
from lamina.dialects.quant import BLOCK, ROWS
from lamina.passes.kernels.divisors import largest_divisor

RUN: Final = 4
"""Neighbouring columns of a thread: f32 of 16 bytes, and of packed weights four times 4 bytes."""

QUADS: Final = ROWS // RUN
"""Runs of a panel."""

MOST_BYTES: Final = 16
"""Bytes that a thread loads at once."""


def laid(value: SSAValue, layout: Layout) -> SSAValue:
    """Say where a value lies, and return it."""
    assert isinstance(value.owner, Operation)
    value.owner.attributes[LAYOUT] = ArrayAttr([LayoutAttr.of(layout)])
    return value


def shared_sums(rows: int, panels: int, threads: int) -> Layout:
    """Return where sums `[rows, panels, 16]` lie: a thread has some rows of four columns."""
    width = panels * ROWS
    across = largest_divisor(QUADS * panels, threads)
    down = largest_divisor(rows, threads // across)
    held = ((across, RUN), (down, width))
    more = ((QUADS * panels // across, RUN * across), (rows // down, width * down))
    return Layout.of(held, ((RUN, 1), *more))


def split_sums(parts: int, rows: int, panels: int, threads: int) -> Layout:
    """Return where sums `[parts, rows, panels, 16]` lie: a thread has four columns of some."""
    panel, row, part = ROWS, panels * ROWS, rows * panels * ROWS
    apart = largest_divisor(parts, threads // QUADS)
    beside = largest_divisor(panels, threads // (QUADS * apart))
    held = ((QUADS, RUN), (apart, part), (beside, panel))
    more = ((panels // beside, panel * beside), (rows, row), (parts // apart, part * apart))
    return Layout.of(held, ((RUN, 1), *more))


def block_of_weights(panels: int, bits: int, threads: int) -> Layout:
    """Return where a block of weights `[panels, 32, 16]` lies: as threads load its bytes.

    Quants of `bits` bits lie in memory as `quant` says.
    """
    bytes_each = panels * ROWS * BLOCK * bits // 8 // threads
    run = min(MOST_BYTES, max(RUN, 1 << max(0, bytes_each.bit_length() - 1)))
    halves = 8 // bits
    digits = [(halves, RUN * ROWS), (RUN, ROWS), (ROWS, 1)]
    digits += [(BLOCK // (RUN * halves), RUN * halves * ROWS), (panels, BLOCK * ROWS)]
    return dealt(digits, run * halves, threads)


def dealt(digits: Sequence[Digit], run: int, threads: int) -> Layout:
    """Return the layout in which a thread has `run` neighbours in the order of `digits`.

    Threads have the next ones, as far as there are threads; what is left has registers again.
    """
    first, rest = _split(digits, run)
    total = prod(size for size, _ in rest)
    held, left = _split(rest, largest_divisor(total, threads))
    return Layout.of(held, (*first, *left))


def _split(digits: Sequence[Digit], count: int) -> tuple[list[Digit], list[Digit]]:
    """Cut a list of digits behind the first `count` values."""
    first: list[Digit] = []
    rest: list[Digit] = []
    for size, weight in digits:
        part = gcd(size, count)
        count //= part
        first.append((part, weight))
        rest.append((size // part, weight * part))
    return first, rest
