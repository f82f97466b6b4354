"""Sums of products: each thread adds to the sums that it holds, in ascending order."""

from __future__ import annotations

from itertools import product

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import SSAValue

from lamina.dialects import tile
from lamina.dialects.layouts import Layout, blocked, row_strides
from lamina.dialects.tile import element_of, shape_of
from lamina.passes.choose_layouts import FRAGMENTS, dot_sources
from lamina.passes.threads.fragment_rules import loaded, multiply
from lamina.passes.threads.lowering import Lowering
from lamina.passes.threads.places import View


def dot(low: Lowering, op: tile.DotOp) -> None:
    """Lower a sum of products; where operands cannot lie beside the sums, those move."""
    layout = low.layout(op.y)
    if FRAGMENTS in op.attributes:
        multiply(low, op)
        return
    sources = dot_sources(op, layout)
    if None in sources:
        layout = blocked(shape_of(op.y.type), low.threads)
        sources = dot_sources(op, layout)
    a, b = sources
    assert a is not None
    assert b is not None
    left, right = (
        _Side(low, op, side, source, layout, registers)
        for side, (source, registers) in enumerate(_registers(low, op, a, b))
    )
    total = low.get(op.acc, layout)
    exact = isinstance(element_of(op.y.type), AnyFloat)
    for place in product(*(range(n) for n in left.extents)):
        x, y = left.at(place), right.at(place)
        if exact:
            total = low.writer.fma(x, y, total)
        else:
            total = low.writer.add(arith.AddiOp(total, low.writer.add(arith.MuliOp(x, y))))
    low.set(op.y, layout, total)


def _registers(
    low: Lowering, op: tile.DotOp, a: Layout, b: Layout
) -> list[tuple[Layout, SSAValue]]:
    """Return where a thread's operands are: in registers, or loaded from where they were copied."""
    if op not in low.rooms:
        return [(a, low.get(op.a, a)), (b, low.get(op.b, b))]
    operands, memories, room, _ = low.rooms[op]
    return [
        (each.fragments, loaded(low, op, each, memory, low.writer.product(room, each.size)))
        for each, memory in zip(operands, memories, strict=True)
    ]


class _Side:
    """One operand's registers, by the registers of the sums."""

    def __init__(
        self,
        low: Lowering,
        op: tile.DotOp,
        side: int,
        source: Layout,
        layout: Layout,
        registers: SSAValue,
    ) -> None:
        x = (op.a, op.b)[side]
        shape = shape_of(x.type)
        strides = row_strides(shape)
        contract, batch = tile.pairs(op.contract), tile.pairs(op.batch)
        used = {pair[side] for pair in (*batch, *contract)}
        free = [strides[d] for d in range(len(shape)) if d not in used]
        sums = [0] * len(shape_of(op.y.type))
        first = len(batch) if side == 0 else len(sums) - len(free)
        for n, pair in enumerate(batch):
            sums[n] = strides[pair[side]]
        sums[first : first + len(free)] = free
        view = View(shape_of(op.y.type), tuple(sums))
        unsigned = bool(tile.values(op.unsigned) and tile.values(op.unsigned)[side])
        self._writer = low.writer
        self._registers = low.writer.cast(registers, element_of(op.y.type), unsigned=unsigned)
        self._elements = [int(n) for n in view.table(layout, 1)[0]]
        self._where = {int(n): r for r, n in enumerate(source.offsets)}
        self._strides = [strides[pair[side]] for pair in contract]
        self.extents = [shape[pair[side]] for pair in contract]

    def at(self, place: tuple[int, ...]) -> SSAValue:
        """Return what each sum is to add at one place of the contracted dimensions."""
        inner = sum(n * stride for n, stride in zip(place, self._strides, strict=True))
        return self._writer.pick(self._registers, [self._where[n + inner] for n in self._elements])


RULES = {tile.DotOp: dot}
