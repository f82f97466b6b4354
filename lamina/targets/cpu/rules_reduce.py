"""`tile.reduce` by halves, in an order that depends only on the type, and `tile.scan`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

import numpy as np
from xdsl.ir import Operation

from lamina.dialects import tile
from lamina.dialects.tile import shape_of, values
from lamina.targets.cpu.elements import F32, I1, I32, Element, vector_literal
from lamina.targets.cpu.emitter import Emitter, Rule
from lamina.targets.cpu.halves import narrow_half, widen_half
from lamina.targets.cpu.lanes import Lanes
from lamina.targets.cpu.rules_move import joined
from lamina.targets.cpu.shuffles import Index, rearrange, rechunk
from lamina.targets.cpu.values import Tile, chunk

Combine = Callable[[Lanes, str, str], str]


def _reduce(emitter: Emitter, op: tile.ReduceOp) -> None:
    x, kind = emitter.usual(op.x), op.kind.data
    if kind.startswith("arg"):
        value, position = _arg(emitter, op, x)
        emitter.set(cast("Any", op.position), _final(emitter, position, shape_of(op.y.type)))
    else:
        combine = _combine(emitter, x.element, kind)
        value = _fold(emitter, x, values(op.dims), combine)
        emitter.ranges[op.y] = (
            emitter.range(op.x) if kind in ("max", "min") else emitter.range(op.y)
        )
    emitter.set(op.y, _final(emitter, value, shape_of(op.y.type)))


def _fold(emitter: Emitter, x: Tile, dims: tuple[int, ...], combine: Combine) -> Tile:
    if x.element.half:
        return _fold_half(emitter, x, dims, combine)
    for dim in dims:
        while x.shape[dim] > 1:
            low, high, rest = _halves(emitter, x, dim)
            x = _rejoined(emitter, _combined(emitter, low, high, combine), rest, dim)
    return x


def _fold_half(emitter: Emitter, x: Tile, dims: tuple[int, ...], combine: Combine) -> Tile:
    """16-bit floats are reduced as f32 and rounded once."""
    native = emitter.features.half
    wide = _mapped(emitter, x, F32, lambda lanes, a: widen_half(lanes, a, native=native))
    folded = _fold(emitter, wide, dims, combine)
    return _mapped(
        emitter, folded, x.element,
        lambda lanes, a: narrow_half(lanes.to(x.element), a, native=native),
    )  # fmt: skip


def _mapped(emitter: Emitter, x: Tile, kind: Element, write: Callable[[Lanes, str], str]) -> Tile:
    lanes = Lanes(emitter.builder, x.element, x.width)
    return Tile(emitter.builder, kind, x.shape, x.width, lambda i: write(lanes, x.part(i)))


def _halves(emitter: Emitter, x: Tile, dim: int) -> tuple[Tile, Tile, Tile | None]:
    """Return the lower half along `dim`, the upper half, and what is left if it is odd."""
    half = x.shape[dim] // 2
    parts = [_cut(emitter, x, dim, 0, half), _cut(emitter, x, dim, half, half)]
    odd = _cut(emitter, x, dim, 2 * half, 1) if x.shape[dim] % 2 else None
    return parts[0], parts[1], odd


def _cut(emitter: Emitter, x: Tile, dim: int, start: int, size: int) -> Tile:
    positions = np.arange(x.size).reshape(x.shape)
    index = np.take(positions, range(start, start + size), axis=dim)
    width = chunk(index.shape, x.element, emitter.features)
    return rearrange(emitter.builder, x, index.shape, width, index.reshape(-1))


def _combined(emitter: Emitter, a: Tile, b: Tile, combine: Combine) -> Tile:
    lanes = Lanes(emitter.builder, a.element, a.width)
    names = [combine(lanes, a.part(i), b.part(i)) for i in range(a.count)]
    return Tile(emitter.builder, a.element, a.shape, a.width, lambda i: names[i])


def _rejoined(emitter: Emitter, x: Tile, rest: Tile | None, dim: int) -> Tile:
    if rest is None:
        return x
    shape = [*x.shape]
    shape[dim] += 1
    low = np.arange(x.size).reshape(x.shape)
    high = np.arange(x.size, x.size + rest.size).reshape(rest.shape)
    index = np.concatenate([low, high], axis=dim).reshape(-1)
    width = chunk(shape, x.element, emitter.features)
    whole = joined(emitter, [x, rest], min(x.width, rest.width))
    return rearrange(emitter.builder, whole, shape, width, index)


def _final(emitter: Emitter, x: Tile, shape: tuple[int, ...]) -> Tile:
    width = chunk(shape, x.element, emitter.features)
    return rearrange(emitter.builder, x, shape, width, np.arange(x.size))


_INTEGER: Final = {"add": "add", "mul": "mul", "and": "and", "or": "or"}
_FLOAT: Final = {"add": "fadd", "mul": "fmul"}


def _combine(emitter: Emitter, kind: Element, name: str) -> Combine:
    if name in ("max", "min"):
        return _extreme(kind, name)
    opcode = (_FLOAT if kind.floating else _INTEGER)[name]
    return lambda lanes, a, b: lanes.op(opcode, a, b)


def _extreme(kind: Element, name: str) -> Combine:
    if kind is I1:
        return lambda lanes, a, b: lanes.op("or" if name == "max" else "and", a, b)
    if not kind.floating:
        return lambda lanes, a, b: lanes.call(f"s{name}", a, b)
    return lambda lanes, a, b: lanes.extreme(name, a, b)


def _arg(emitter: Emitter, op: tile.ReduceOp, x: Tile) -> tuple[Tile, Tile]:
    (dim,) = values(op.dims)
    original = x.element
    if original.half:
        native = emitter.features.half
        x = _mapped(emitter, x, F32, lambda lanes, a: widen_half(lanes, a, native=native))
    where = np.indices(x.shape)[dim].reshape(-1)
    position = _positions(emitter, x, where)
    best = _better(x.element, op.kind.data)
    while x.shape[dim] > 1:
        low, high, rest = _halves(emitter, x, dim)
        p, q, r = _halves(emitter, position, dim)
        p, q = (rechunk(emitter.builder, v, low.width) for v in (p, q))
        chosen = [best(emitter, low, high, p, q, i) for i in range(low.count)]
        x = _rejoined(emitter, _named(emitter, low, [c[0] for c in chosen]), rest, dim)
        p = _named(emitter, p, [c[1] for c in chosen])
        position = _rejoined(emitter, p, r, dim)
    if original.half:
        native = emitter.features.half
        x = _mapped(
            emitter, x, original, lambda lanes, a: narrow_half(lanes.to(original), a, native=native)
        )
    return x, position


def _positions(emitter: Emitter, x: Tile, where: Index) -> Tile:
    width = chunk(x.shape, I32, emitter.features)
    rows = where.reshape(-1, width)
    return Tile(emitter.builder, I32, x.shape, width, lambda i: vector_literal(I32, list(rows[i])))


def _named(emitter: Emitter, like: Tile, names: list[str]) -> Tile:
    return Tile(emitter.builder, like.element, like.shape, like.width, lambda i: names[i])


def _better(kind: Element, name: str) -> Callable[..., tuple[str, str]]:
    greater = "gt" if name == "argmax" else "lt"

    def choose(
        emitter: Emitter, low: Tile, high: Tile, p: Tile, q: Tile, i: int
    ) -> tuple[str, str]:
        a, b, m, n = low.part(i), high.part(i), p.part(i), q.part(i)
        lanes = Lanes(emitter.builder, kind, low.width)
        bits, places = lanes.to(I1), lanes.to(I32)
        earlier = places.compare("slt", n, m)
        if kind.floating:
            missing, both = lanes.compare("uno", a, a), lanes.compare("uno", b, b)
            # Unordered counts as better, unless what we have is NaN already.
            wins = lanes.compare(f"u{greater}", b, a)
            wins = bits.op("and", wins, bits.op("xor", missing, bits.constant(1)))
            ties = bits.op("or", lanes.compare("oeq", a, b), bits.op("and", missing, both))
        else:
            sign = "u" if kind is I1 else "s"
            wins = lanes.compare(f"{sign}{greater}", b, a)
            ties = lanes.compare("eq", a, b)
        take = bits.op("or", wins, bits.op("and", ties, earlier))
        return lanes.select(take, b, a), places.select(take, n, m)

    return choose


def _scan(emitter: Emitter, op: tile.ScanOp) -> None:
    x, dim = emitter.usual(op.x), op.dim.value.data
    combine = _scan_step(emitter, x.element, op.kind.data)
    steps = [_cut(emitter, x, dim, i, 1) for i in range(x.shape[dim])]
    sums = [steps[0]]
    for step in steps[1:]:
        sums.append(_combined(emitter, sums[-1], step, combine))
    whole = joined(emitter, sums, sums[0].width)
    each = np.arange(steps[0].size).reshape(steps[0].shape)
    index = np.concatenate([each + n * steps[0].size for n in range(len(steps))], axis=dim)
    emitter.set(op.y, rearrange(emitter.builder, whole, x.shape, x.width, index.reshape(-1)))


def _scan_step(emitter: Emitter, kind: Element, name: str) -> Combine:
    """16-bit floats are rounded at every step, since every step is a result."""
    inner = _combine(emitter, F32 if kind.half else kind, name)
    if not kind.half:
        return inner
    native = emitter.features.half

    def combine(lanes: Lanes, a: str, b: str) -> str:
        wide = [widen_half(lanes, v, native=native) for v in (a, b)]
        return narrow_half(lanes.to(kind), inner(lanes.to(F32), *wide), native=native)

    return combine


RULES: Final[dict[type[Operation], Rule]] = {tile.ReduceOp: _reduce, tile.ScanOp: _scan}
