"""Schedules beside a schedule, along one axis, that its group can be built with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, cast

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents
from lamina.passes.groups import body_ops
from lamina.passes.kernels.column_tiles import tile_counts
from lamina.passes.kernels.linear_kernel import Product, is_linear, is_unpacked
from lamina.passes.kernels.register_tile import TileDoesNotFit
from lamina.passes.kernels.rows import chunk_of
from lamina.passes.schedules.choice import check_fit
from lamina.passes.schedules.cost_model import PANEL
from lamina.passes.schedules.database import Numbers
from lamina.passes.schedules.scheduled import Scheduled

_ROWS: Final = (0.5, 0.75, 1.25, 1.5, 2.0)
_DEPTHS: Final = (0.5, 2.0, 4.0)
_WIDTHS: Final = (0.25, 0.5, 2.0)
_BESIDE: Final = 2
"""How many numbers of panels on either side are tried."""


def neighbours(scheduled: Scheduled, numbers: Numbers, axis: str) -> list[Numbers]:
    """Return the schedules beside `numbers` that fit, along an axis of `AXES`."""
    found: list[Numbers] = []
    for candidate in AXES[axis](scheduled, numbers):
        if candidate not in found and candidate != numbers and _fits(scheduled.group, candidate):
            found.append(candidate)
    return found


def all_neighbours(scheduled: Scheduled) -> list[Numbers]:
    """Return the schedules beside a group's own, along every axis."""
    return [each for axis in AXES for each in neighbours(scheduled, scheduled.numbers, axis)]


def _rows(scheduled: Scheduled, numbers: Numbers) -> Iterator[Numbers]:
    """More rows and fewer; a branch of few rows has no others."""
    if not scheduled.few:
        yield from _scaled(numbers, "m", _ROWS)


def _columns(scheduled: Scheduled, numbers: Numbers) -> Iterator[Numbers]:
    """More columns and fewer, and more and fewer of them in registers at once."""
    group = scheduled.group
    if group.anchor.data == "dot":
        width = _width(group)
        now = chunk_of(width, numbers["n"])
        wider = _scaled(numbers, "n", _WIDTHS)
        yield from (each for each in wider if chunk_of(width, each["n"]) != now)
        return
    counts = tile_counts(body_ops(group))
    tiles, at_once = numbers["n"] // PANEL, numbers["r"] // PANEL
    here = counts.index(tiles) if tiles in counts else 0
    around, next_to = counts[max(0, here - _BESIDE) : here + _BESIDE + 1], counts[here : here + 2]
    for wanted, widths in ((at_once, around), (2 * at_once, next_to), (at_once // 2, next_to)):
        for count in widths:
            fitting = (d for d in range(1, max(1, wanted) + 1) if count % d == 0)
            columns = count * PANEL
            rest = {name: n for name, n in numbers.items() if name != "b" or n % columns == 0}
            yield {**rest, "n": columns, "r": max(fitting) * PANEL}


def _bands(scheduled: Scheduled, numbers: Numbers) -> Iterator[Numbers]:
    """Wider bands of columns and narrower ones."""
    if "b" in numbers:
        yield from _scaled(numbers, "b", _WIDTHS)


def _depth(scheduled: Scheduled, numbers: Numbers) -> Iterator[Numbers]:
    """More columns of K at once and fewer; weights in blocks have their own number."""
    ops = body_ops(scheduled.group)
    products = [cast("Product", op) for op in ops if is_linear(op)]
    if products and not any(map(is_unpacked, products)):
        yield from _scaled(numbers, "k", _DEPTHS)


AXES: Final[dict[str, Callable[[Scheduled, Numbers], Iterator[Numbers]]]] = {
    "rows": _rows,
    "columns": _columns,
    "bands": _bands,
    "depth": _depth,
}
"""What a schedule is changed in, one after another."""


def _scaled(numbers: Numbers, name: str, factors: tuple[float, ...]) -> Iterator[Numbers]:
    for factor in factors:
        yield {**numbers, name: max(1, round(numbers[name] * factor))}


def _width(group: nn.GroupOp) -> Dim:
    (op,) = (op for op in body_ops(group) if isinstance(op, nn.DotGeneralOp))
    return extents(op.y.type)[-1]


def _fits(group: nn.GroupOp, numbers: Numbers) -> bool:
    try:
        check_fit(group, numbers)
    except TileDoesNotFit:
        return False
    return True
