"""`tile.dot`: one multiply-add a step of the contraction for each part of the accumulator."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np
import numpy.typing as npt
from xdsl.ir import Operation

from lamina.dialects import tile
from lamina.dialects.tile import pairs, shape_of
from lamina.targets.cpu import bytes_dot
from lamina.targets.cpu.elements import F32, Element, element
from lamina.targets.cpu.emitter import Emitter, Rule
from lamina.targets.cpu.halves import narrow_half, widen_half
from lamina.targets.cpu.lanes import Lanes
from lamina.targets.cpu.left_operand import LeftOperand
from lamina.targets.cpu.rules_math import fused
from lamina.targets.cpu.shuffles import gather
from lamina.targets.cpu.values import Tile

Index = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Contraction:
    """Which elements of a and b meet: `a[part, lane, step]` and `b[part, lane, step]`."""

    a: Index
    b: Index

    @property
    def steps(self) -> int:
        """The number of products in each sum."""
        return self.a.shape[2]

    @property
    def parts(self) -> int:
        """The number of parts of the accumulator."""
        return self.a.shape[0]


def contraction(op: tile.DotOp, width: int) -> Contraction:
    """Return the positions that `op` multiplies, for an accumulator in parts of `width`."""
    contract, batch = pairs(op.contract), pairs(op.batch)
    a, b = shape_of(op.a.type), shape_of(op.b.type)
    left = [d for d in range(len(a)) if d not in {i for i, _ in (*batch, *contract)}]
    right = [d for d in range(len(b)) if d not in {j for _, j in (*batch, *contract)}]
    groups, steps = prod(a[i] for i, _ in batch), prod(a[i] for i, _ in contract)
    rows, columns = prod(a[d] for d in left), prod(b[d] for d in right)
    order_a = [*(i for i, _ in batch), *left, *(i for i, _ in contract)]
    order_b = [*(j for _, j in batch), *right, *(j for _, j in contract)]
    at_a = np.arange(prod(a)).reshape(a).transpose(order_a).reshape(groups, rows, 1, steps)
    at_b = np.arange(prod(b)).reshape(b).transpose(order_b).reshape(groups, 1, columns, steps)
    whole = (groups, rows, columns, steps)
    return Contraction(
        np.broadcast_to(at_a, whole).reshape(-1, width, steps),
        np.broadcast_to(at_b, whole).reshape(-1, width, steps),
    )


def _dot(emitter: Emitter, op: tile.DotOp) -> None:
    acc = emitter.usual(op.acc)
    if not acc.width:
        raise AssertionError("an accumulator is a vector")
    places = contraction(op, acc.width)
    a, b = emitter.tile(op.a), emitter.tile(op.b)
    if element(op.a.type).floating:
        names = _floats(emitter, a, b, acc, places)
    else:
        unsigned = tile.values(op.unsigned) or (0, 0)
        names = bytes_dot.sums(emitter, a, b, acc, (places.a, places.b), (unsigned[0], unsigned[1]))
    emitter.set(op.y, Tile(emitter.builder, acc.element, acc.shape, acc.width, lambda i: names[i]))


def _floats(emitter: Emitter, a: Tile, b: Tile, acc: Tile, places: Contraction) -> list[str]:
    builder, half = emitter.builder, acc.element.half
    kind = F32 if half else acc.element
    native = emitter.features.half
    a, b = _converted(emitter, a, kind), _converted(emitter, b, kind)
    left = LeftOperand(emitter, a, places.a)
    lanes = Lanes(builder, kind, acc.width)
    names = acc.force()
    order = _order(left.owners(), places.b)
    for step in range(places.steps):
        for part in order:
            x = left.lanes(part, step)
            y = gather(builder, b, places.b[part, :, step])
            total = (
                widen_half(lanes.to(acc.element), names[part], native=native)
                if half
                else names[part]
            )
            total = fused(lanes, x, y, total, fma=emitter.features.fma)
            names[part] = (
                narrow_half(lanes.to(acc.element), total, native=native) if half else total
            )
    return names


def _order(owners: list[int], right: Index) -> list[int]:
    """Return the parts in an order in which few operands are needed at once.

    Those of the side that has fewer stay in registers while the others pass by, one at a time.
    """
    columns = [part.tobytes() for part in right]
    first = {column: part for part, column in reversed([*enumerate(columns)])}
    if len({*owners}) >= len(first):
        return [*range(len(owners))]
    return sorted(range(len(owners)), key=lambda part: first[columns[part]])


def _converted(emitter: Emitter, x: Tile, kind: Element) -> Tile:
    if x.element is kind:
        return x
    builder, lanes = emitter.builder, Lanes(emitter.builder, x.element, x.width)

    def make(part: int) -> str:
        if not x.element.half:
            return lanes.convert("fpext", x.part(part), kind)
        single = widen_half(lanes, x.part(part), native=emitter.features.half)
        return single if kind is F32 else lanes.to(F32).convert("fpext", single, kind)

    return Tile(builder, kind, x.shape, x.width, make)


RULES: Final[dict[type[Operation], Rule]] = {tile.DotOp: _dot}
