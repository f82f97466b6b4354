"""Products on matrix units: operands come through shared memory, where fragments are loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from xdsl.ir import SSAValue

from lamina.dialects import simt, tile
from lamina.dialects.layouts import Fragments, Layout
from lamina.dialects.tile import element_of, shape_of
from lamina.passes.choose_layouts import (
    DIRECT,
    FRAGMENTS,
    WARPGROUPS,
    dot_sources,
    fragment_sources,
    fragments_of,
)
from lamina.passes.threads.hazards import LEFT, RIGHT
from lamina.passes.threads.lowering import Lowering
from lamina.passes.threads.places import View
from lamina.passes.threads.writer import Number


@dataclass(frozen=True)
class Operand:
    """One operand of a product in shared memory: row by row, with room between the rows.

    `rows` is where its elements are stored, `size` how many elements it takes, `fragments` where
    a thread's elements lie, and `across` says that K is not the dimension along rows. One that is
    `boxed` comes in boxes of all its rows and 64 columns, as `simt.copy_tensor` puts them.
    """

    value: SSAValue
    use: str
    rows: View
    size: int
    fragments: Layout
    across: bool
    boxed: bool = False

    @property
    def steps(self) -> tuple[int, int]:
        """The distances by which a product of several subgroups finds the parts of it."""
        if self.boxed:
            return 8 * simt.SWIZZLED_ROW, shape_of(self.value.type)[0] * simt.SWIZZLED_ROW
        # To the next matrix along rows it is 64 elements, to the next rows 8 whole ones.
        rows = self.rows.strides[0]
        return (64, rows) if self.across else (rows, 64)


def operands_of(low: Lowering, op: tile.DotOp) -> tuple[Operand, Operand]:
    """Return the operands of a product that matrix units make."""
    how = how_of(low, op)
    ((i, j),) = tile.pairs(op.contract)
    a, b = fragment_sources(op, how)
    make = _matrices_of_eight if WARPGROUPS in op.attributes else _operand
    return (
        make(low, op.a, LEFT, a, across=i == 0),
        make(low, op.b, RIGHT, b, across=j == 0),
    )


def staged_operands(low: Lowering, op: tile.DotOp) -> tuple[Operand, Operand] | None:
    """Return the operands of a product of which threads make their own parts, in shared memory.

    None where a thread's operands cannot be told from where its sums lie.
    """
    a, b = dot_sources(op, low.layout(op.y))
    if a is None or b is None:
        return None
    ((i, j),) = tile.pairs(op.contract)
    return (
        _operand(low, op.a, LEFT, _along_first(op.a, a, i), across=i == 0),
        _operand(low, op.b, RIGHT, _along_first(op.b, b, j), across=j == 0),
    )


def _along_first(value: SSAValue, source: Layout, contracted: int) -> Layout:
    """Return a layout whose registers go along K first, if K is what lies side by side."""
    size = shape_of(value.type)[contracted]
    digits = source.registers
    if contracted != 1 or not digits or digits[-1] != (size, 1):
        return source
    return Layout(source.threads, (digits[-1], *digits[:-1]))


def _matrices_of_eight(
    low: Lowering, value: SSAValue, use: str, fragments: Layout, *, across: bool
) -> Operand:
    """Return an operand that lies in matrices of 8 by 8, those along its rows side by side."""
    rows, columns = shape_of(value.type)
    view = View((rows // 8, 8, columns // 8, 8), (8 * columns, 8, 64, 1))
    return Operand(value, use, view, rows * columns, fragments, across)


def _operand(
    low: Lowering, value: SSAValue, use: str, fragments: Layout, *, across: bool
) -> Operand:
    rows = View.rows(shape_of(value.type))
    view, _, size = low.shared.apart(rows, rows, element_of(value.type))
    return Operand(value, use, view, size, fragments, across)


def how_of(low: Lowering, op: tile.DotOp) -> Fragments:
    """Return how the threads share a product that matrix units make."""
    how = fragments_of(op, low.threads)
    assert how is not None
    return how


def multiply(low: Lowering, op: tile.DotOp) -> None:
    """Lower a product: store its operands, then let matrix units add fragment after fragment."""
    if not low.shared.narrow or DIRECT in op.attributes:
        a, b = fragment_sources(op, how_of(low, op))
        add_fragments(low, op, low.get(op.a, a), low.get(op.b, b))
        return
    if op in low.rooms:
        operands, memories, room, pending = low.rooms[op]
        starts = [low.writer.product(room, each.size) for each in operands]
        _multiply(low, op, operands, memories, starts, pending)
        return
    operands = operands_of(low, op)
    memories: list[SSAValue] = []
    for operand in operands:
        kind, here = element_of(operand.value.type), low.layout(operand.value)
        memory, name = low.shared.memory(kind, operand.size, operand.use)
        registers = low.shared.given(low.get(operand.value, here), kind)
        low.hazards.store(name)
        at, run = low.places.number(here, operand.rows), operand.rows.run(here, low.threads)
        low.shared.store(registers, memory, at, [], low.places.owner(here), run)
        memories.append(memory)
    if WARPGROUPS in op.attributes:
        low.writer.effect(simt.FenceOp())
    kinds = [element_of(operand.value.type) for operand in operands]
    uses = zip(kinds, operands, strict=True)
    low.hazards.load(*(low.shared.memory(kind, 0, each.use)[1] for kind, each in uses))
    _multiply(low, op, operands, memories, (0, 0))


def _multiply(
    low: Lowering,
    op: tile.DotOp,
    operands: Sequence[Operand],
    memories: Sequence[SSAValue],
    starts: Sequence[Number],
    pending: int = 0,
) -> None:
    """Multiply operands in shared memory, each from its start on.

    Of products that several subgroups make, the `pending` last ones are not waited for.
    """
    if WARPGROUPS in op.attributes:
        begun = _begun_together(low, op, operands, memories, starts)
        waited = low.writer.add(simt.WarpgroupWaitOp(begun, pending))
        low.set(op.y, low.layout(op.y), waited)
        return
    left, right = (
        loaded(low, op, operand, memory, start)
        for operand, memory, start in zip(operands, memories, starts, strict=True)
    )
    add_fragments(low, op, left, right)


def _begun_together(
    low: Lowering,
    op: tile.DotOp,
    operands: Sequence[Operand],
    memories: Sequence[SSAValue],
    starts: Sequence[Number],
) -> SSAValue:
    """Begin a product that several subgroups make; return its sums, which are under way."""
    how, layout, (a, b) = how_of(low, op), low.layout(op.y), operands
    places = [low.writer.value(start) for start in starts]
    return low.writer.add(
        simt.WarpgroupMultiplyOp(
            (memories[0], places[0], memories[1], places[1]),
            low.get(op.acc, layout),
            element_of(op.a.type),
            (how.m, how.n, how.k),
            (a.steps, b.steps),
            (int(a.across), int(b.across)),
            swizzled=a.boxed,
        )
    )


def loaded(
    low: Lowering, op: tile.DotOp, operand: Operand, memory: SSAValue, start: Number
) -> SSAValue:
    """Return a thread's registers of an operand that lies in shared memory from `start` on."""
    kind = element_of(operand.value.type)
    if getattr(kind, "bitwidth", 0) == 16 and FRAGMENTS in op.attributes:
        return low.shared.taken(_matrices(low, op, operand, memory, start), kind)
    at = low.writer.sum(start, low.places.number(operand.fragments, operand.rows))
    run = operand.rows.run(operand.fragments, low.threads)
    return low.shared.taken(low.shared.load(memory, at, operand.fragments.count, run), kind)


def _matrices(
    low: Lowering, op: tile.DotOp, operand: Operand, memory: SSAValue, start: Number
) -> SSAValue:
    """Load matrices of 8 by 8, four at once: one fragment of the left operand, two of the right."""
    how, shape = how_of(low, op), operand.rows.shape
    k, free = (shape[1], 1) if operand.across else (1, shape[1])
    if operand.use == LEFT:
        count, more = 4, [(2, 8 * free), (2, 8 * k)]
        groups = [(how.columns, 0), (how.rows, 16 * free)]
        again = [(how.m // (16 * how.rows), 16 * how.rows * free), (how.k // 16, 16 * k)]
    else:
        columns = how.n // (8 * how.columns)
        pair = 1 if columns % 2 else 2
        next_one = 8 * how.columns * free
        count, more = 2 * pair, [(2, 8 * k), (2, next_one * (pair - 1))]
        groups = [(how.columns, 8 * free), (how.rows, 0)]
        again = [(columns // pair, next_one * pair), (how.k // 16, 16 * k)]
    # Lane t names row t % 8 of matrix t / 8: along K where rows lie across it.
    lanes = [(8, k if operand.across else free), *more]
    rows = Layout((*lanes, *groups), tuple(again))
    at = low.writer.sum(start, low.places.number(rows, operand.rows))
    places = low.writer.registers(at, rows.count)
    return low.writer.add(simt.LoadMatrixOp(memory, places, count, transposed=operand.across))


def add_fragments(low: Lowering, op: tile.DotOp, a: SSAValue, b: SSAValue) -> None:
    """Add the products of fragments to the sums, those along K one after the other."""
    how, writer, layout = how_of(low, op), low.writer, low.layout(op.y)
    sums = low.get(op.acc, layout)
    rows, columns = how.m // (16 * how.rows), how.n // (8 * how.columns)
    unsigned, total = tile.values(op.unsigned), list[SSAValue]()
    for row, column in product(range(rows), range(columns)):
        found = writer.pick(sums, _run(column + columns * row, 4))
        for k in range(how.k // (8 * how.run)):
            left = writer.pick(a, _run(row + rows * k, 4 * how.run))
            right = writer.pick(b, _run(column + columns * k, 2 * how.run))
            found = writer.add(simt.MultiplyAccumulateOp(left, right, found, unsigned))
        total.append(found)
    low.set(op.y, layout, writer.join(total))


def _run(number: int, size: int) -> Sequence[int]:
    return range(number * size, (number + 1) * size)
