"""Reductions and scans: first a thread's own registers, then its subgroup, then the block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, i1, i8, i16, i32
from xdsl.ir import SSAValue

from lamina.dialects import simt, tile
from lamina.dialects.layouts import Digit, Layout, row_strides, spread
from lamina.dialects.tile import element_of, shape_of, values
from lamina.passes.choose_layouts import whole
from lamina.passes.threads.lowering import Lowering
from lamina.passes.threads.places import View

_FLOAT: dict[str, type[Any]] = {
    "add": arith.AddfOp,
    "mul": arith.MulfOp,
    "max": arith.MaximumfOp,
    "min": arith.MinimumfOp,
}
_INTEGER: dict[str, type[Any]] = {
    "add": arith.AddiOp,
    "mul": arith.MuliOp,
    "max": arith.MaxSIOp,
    "min": arith.MinSIOp,
    "and": arith.AndIOp,
    "or": arith.OrIOp,
}

Held = tuple[SSAValue, ...]
"""Registers with values, and for an argument of an extreme its positions."""

Combination = Callable[[Held, Held], Held]
"""Makes one of two parts, register by register."""


def reduce(low: Lowering, op: tile.ReduceOp) -> None:
    """Lower a reduction; its result lies in every thread that had a part in it."""
    shape, dims = shape_of(op.x.type), values(op.dims)
    rest = [d for d in range(len(shape)) if d not in dims]
    y = tuple(shape[d] for d in rest)
    strides = dict(zip(rest, row_strides(y), strict=True))
    given = low.layout(op.x)
    result = given.mapped(shape, strides)
    if result is None:
        given = spread(shape, low.threads)
        result = given.mapped(shape, strides)
    assert result is not None
    held: Held = (low.get(op.x, given),)
    if op.position is not None:
        at = low.writer.registers(low.places.coordinate(given, shape, dims[0]), given.count)
        held = (*held, low.writer.cast(at, i32))
    combine = _combination(low, op)
    held = _own(low, held, given, View(shape, tuple(strides.get(d, 0) for d in range(len(shape)))))
    held = _fold(low, held, result.count, combine)
    parts = _parts(given, shape, dims, low.subgroup)
    held = _across(low, held, parts, y, result, combine, _native(op))
    for value, registers in zip(op.results, held, strict=True):
        if y:
            low.set(value, result, registers)
        else:
            low.scalars[value] = low.uniform(value, low.writer.first(registers))


def _own(low: Lowering, held: Held, given: Layout, view: View) -> Held:
    """Return the registers ordered: a part of each result in ascending order, then the next."""
    elements = [int(n) for n in view.table(given, 1)[0]]
    order: dict[int, list[int]] = {n: [] for n in elements}
    for r in sorted(range(given.count), key=lambda r: given.offsets[r]):
        order[elements[r]].append(r)
    at = [r for part in zip(*order.values(), strict=True) for r in part]
    return tuple(low.writer.pick(each, at) for each in held)


def _fold(low: Lowering, held: Held, count: int, combine: Combination) -> Held:
    """Combine groups of `count` registers in ascending order."""
    writer, parts = low.writer, shape_of(held[0].type)[0] // count
    total = tuple(writer.pick(each, range(count)) for each in held)
    for n in range(1, parts):
        at = range(n * count, (n + 1) * count)
        total = combine(total, tuple(writer.pick(each, at) for each in held))
    return total


class _Part(NamedTuple):
    """A digit of the thread's number: its weight in the result, and how parts of it meet."""

    size: int
    weight: int
    div: int
    how: str


def _parts(given: Layout, shape: Sequence[int], dims: Sequence[int], subgroup: int) -> list[_Part]:
    """Return the digits of the thread's number: kept, or reduced within a subgroup or beyond."""
    rest = [d for d in range(len(shape)) if d not in dims]
    strides = dict(zip(rest, row_strides([shape[d] for d in rest]), strict=True))
    found: list[_Part] = []
    div = 1
    for size, dim, step in given.thread_digits(shape):
        if dim not in dims:
            found.append(_Part(size, strides.get(dim, 0) * step, div, "kept"))
        else:
            bits = div & (div - 1) == 0 and size & (size - 1) == 0
            near = min(size, max(1, subgroup // div)) if bits else 1
            found.append(_Part(near, 0, div, "near"))
            found.append(_Part(size // near, 0, div * near, "far"))
        div *= size
    return found


def _across(
    low: Lowering,
    held: Held,
    parts: Sequence[_Part],
    y: Sequence[int],
    result: Layout,
    combine: Combination,
    kind: str | None,
) -> Held:
    """Combine what threads hold: neighbours shuffle, others meet in shared memory.

    `kind` says what subgroups reduce by, None where they cannot.
    """
    for part in parts:
        xor = part.div
        if kind is not None and part.how == "near" and part.size > 1 and part.div == 1:
            held = (_reduced(low, held[0], kind, part.size),)
            continue
        while part.how == "near" and xor < part.div * part.size:
            other = tuple(low.writer.add(simt.ShuffleOp(each, xor)) for each in held)
            held = combine(held, other)
            xor *= 2
    size, count = prod(y), 1
    digits: list[Digit] = []
    for part in parts:
        digits.append((part.size, size * count if part.how == "far" else part.weight))
        count *= part.size if part.how == "far" else 1
    if count == 1:
        return held
    stored = Layout(tuple(digits), result.registers)
    read, view = result.with_registers([(count, size)]), View.rows((count, *y))
    held = tuple(
        low.shared.exchange([(each, stored, view)], count * size, read, view) for each in held
    )
    return _fold(low, held, result.count, combine)


def _native(op: tile.ReduceOp) -> str | None:
    """Return the kind of a reduction that subgroups make: one in which no order is a matter."""
    kind, element = op.kind.data, element_of(op.x.type)
    allowed = (i8, i16, i32) if kind in ("add", "mul") else (i1, i8, i16, i32)
    return kind if element in allowed and op.position is None else None


def _reduced(low: Lowering, x: SSAValue, kind: str, size: int) -> SSAValue:
    """Return registers reduced over `size` neighbours; narrow integers are so as wide ones."""
    element = element_of(x.type)
    wide = x if element == i1 else low.writer.cast(x, i32)
    cluster = size if size < low.subgroup else None
    whole = low.writer.add(simt.SubgroupReduceOp(wide, kind, cluster))
    return whole if element == i1 else low.writer.cast(whole, element)


def _combination(low: Lowering, op: tile.ReduceOp) -> Combination:
    kind, writer = op.kind.data, low.writer
    exact = isinstance(element_of(op.x.type), AnyFloat)
    if op.position is None:
        fold = (_FLOAT if exact else _INTEGER)[kind]
        return lambda a, b: (writer.add(fold(a[0], b[0])),)
    better = "gt" if kind == "argmax" else "lt"

    def combine(a: Held, b: Held) -> Held:
        wins = writer.add(tile.CompareOp(better, b[0], a[0]))
        same = writer.add(tile.CompareOp("eq", b[0], a[0]))
        if exact:
            nan_a = writer.add(tile.CompareOp("ne", a[0], a[0]))
            nan_b = writer.add(tile.CompareOp("ne", b[0], b[0]))
            both = writer.add(arith.AndIOp(nan_a, nan_b))
            alone = writer.add(tile.CompareOp("gt", nan_b, nan_a, unsigned=True))
            wins, same = writer.add(arith.OrIOp(wins, alone)), writer.add(arith.OrIOp(same, both))
        earlier = writer.add(tile.CompareOp("lt", b[1], a[1]))
        wins = writer.add(arith.OrIOp(wins, writer.add(arith.AndIOp(same, earlier))))
        return tuple(writer.add(tile.SelectOp(wins, y, x)) for x, y in zip(a, b, strict=True))

    return combine


def scan(low: Lowering, op: tile.ScanOp) -> None:
    """Lower a scan: a thread has all elements along the dimension, and goes through them."""
    shape, dim = shape_of(op.y.type), op.dim.value.data
    strides = row_strides(shape)
    layout = whole(shape, spread(shape, low.threads), dim, strides, shape[dim])
    x, writer = low.get(op.x, layout), low.writer
    exact = isinstance(element_of(op.x.type), AnyFloat)
    fold = (_FLOAT if exact else _INTEGER)[op.kind.data]
    ahead = {offset: r for r, offset in enumerate(layout.offsets)}
    found: dict[int, SSAValue] = {}
    for offset in sorted(ahead):
        one, before = writer.pick(x, [ahead[offset]]), offset - strides[dim]
        here = offset // strides[dim] % shape[dim]
        found[offset] = writer.add(fold(found[before], one)) if here else one
    low.set(op.y, layout, writer.join([found[offset] for offset in layout.offsets]))


RULES = {tile.ReduceOp: reduce, tile.ScanOp: scan}
