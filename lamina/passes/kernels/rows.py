"""Row operations: norms, softmax and reductions along the last dimension.

A row operation is two things: statistics of a row (a sum of squares, a maximum), found by loops
over the row, and a map that uses them. The loops add lane by lane in ascending chunks, then across
lanes, in an order that depends only on the chunk's width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import BFloat16Type, Float16Type, IndexType, IntegerType, f32, i1
from xdsl.ir import Attribute, Operation, SSAValue

from lamina.dialects import nn, tile
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents
from lamina.errors import LoweringError
from lamina.passes.kernels.signs import extremes
from lamina.passes.kernels.subscripts import Index, Span, sizes
from lamina.passes.kernels.tiles import Tiles, rule

LINE = 16
"""Elements of a line of a cache."""

Known = tuple[SSAValue, ...]
"""What is known of a row so far, vectors of one element."""

Statistic = Callable[[Tiles, Any, Index, int, Known], SSAValue]
"""Emit what else an operation must know of the row at an index: (tiles, op, row, chunk, known)."""

Combine = Callable[[SSAValue, SSAValue], SSAValue]
"""Emit what results of lanes and a further chunk come to."""

STATISTICS: dict[type[Operation], list[Statistic]] = {}
"""The statistics of each row operation, one after another: each needs a loop over the row."""

COMBINE: dict[str, tuple[type[Any], type[Any]]] = {
    "add": (arith.AddfOp, arith.AddiOp),
    "mul": (arith.MulfOp, arith.MuliOp),
    "max": (arith.MaximumfOp, arith.MaxSIOp),
    "min": (arith.MinimumfOp, arith.MinSIOp),
    "and": (arith.AndIOp, arith.AndIOp),
    "or": (arith.OrIOp, arith.OrIOp),
}
"""How two partial results of a reduction become one, for floats and for integers."""

NEUTRAL: dict[str, tuple[float, int]] = {
    "add": (0.0, 0),
    "mul": (1.0, 1),
    "max": (float("-inf"), -1),
    "min": (float("inf"), 0),
    "and": (0.0, -1),
    "or": (0.0, 0),
}


def statistic(kind: type[Operation]) -> Callable[[Statistic], Statistic]:
    """Register the next statistic of a row operation."""

    def register(function: Statistic) -> Statistic:
        STATISTICS.setdefault(kind, []).append(function)
        return function

    return register


def kind_of(op: nn.ReduceOp) -> str:
    """Return what a reduction is done by: of truth values, "or" is the maximum."""
    kind = op.kind.data
    return {"max": "or", "min": "and"}.get(kind, kind) if nn.element(op.x) == i1 else kind


def chunk_of(extent: Dim, widest: int) -> int:
    """Return how many elements of a row of `extent` are taken at once: a power of two."""
    if extent.constant is None:
        return widest
    return min(widest, 1 << max(0, extent.constant - 1).bit_length())


def neutral(kind: str, element: object) -> float:
    """Return the value that leaves a reduction of `kind` as it is; of unsigned ones, `ordered`."""
    if not isinstance(element, IntegerType):
        return NEUTRAL[kind][0]
    bits = cast("IntegerType[Any, Any]", element).width.data
    extremes = {"max": -(2 ** (bits - 1)), "min": 2 ** (bits - 1) - 1}
    return extremes.get(kind, NEUTRAL[kind][1])


def accumulator(element: Attribute) -> Attribute:
    """Return the type that elements are brought together in: f32 for narrower floats."""
    return f32 if isinstance(element, Float16Type | BFloat16Type) else element


def wide(tiles: Tiles, value: SSAValue, index: Index) -> SSAValue:
    """Return a tile of `value` in the type that its elements are brought together in."""
    return tiles.emit.cast(tiles.tile_of(value, index), accumulator(nn.element(value)))


def single(tiles: Tiles, value: SSAValue, index: Index) -> SSAValue:
    """Return a tile of `value` as f32; LoweringError if it is of another wide type."""
    if accumulator(nn.element(value)) != f32:
        raise LoweringError(f"a row of {nn.element(value)} has no kernel")
    return wide(tiles, value, index)


def over_row(
    tiles: Tiles,
    extent: Dim,
    chunk: int,
    body: Callable[[Span, Sequence[SSAValue]], Sequence[SSAValue]],
    carried: Sequence[SSAValue] = (),
) -> list[SSAValue]:
    """Run `body` on each chunk of a row in ascending order and return what it carries."""
    emit = tiles.emit
    whole = extent.constant is not None and extent.constant % chunk == 0
    if extent == chunk:
        return list(body(Span(emit.index(0), chunk, inside=True), carried))

    def step(at: SSAValue, *values: SSAValue) -> Sequence[SSAValue]:
        return body(Span(at, chunk, whole), values)

    high, width = emit.extent(extent), emit.index(chunk)
    return tiles.loop(emit.index(0), high, width, carried, step)


def fold_row(
    tiles: Tiles,
    extent: Dim,
    chunk: int,
    kind: str,
    value: Callable[[Span], SSAValue],
    element: Attribute = f32,
    *,
    combine: Combine | None = None,
) -> SSAValue:
    """Reduce a row of one-row tiles `[…, chunk]` to a vector `[1]`.

    `combine` takes a chunk into the lanes' results, by default as `kind` does; the kind's neutral
    value, which stands for what is beyond the row, leaves them as they are.
    """
    emit = tiles.emit
    start = emit.full(neutral(kind, element), element, [chunk])
    usual = COMBINE[kind][isinstance(element, IntegerType)]

    def body(span: Span, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
        x = extremes(emit, emit.reshape(value(span), [chunk]), kind, element)
        if not span.inside:
            x = emit.add(tile.SelectOp(valid(tiles, span, extent), x, start))
        return [combine(carried[0], x) if combine else emit.binary(usual, carried[0], x)]

    (lanes,) = over_row(tiles, extent, chunk, body, [start])
    found = emit.broadcast(emit.reduce(lanes, kind, [0]), [], [1])
    return extremes(emit, found, kind, element)


def valid(tiles: Tiles, span: Span, extent: Dim) -> SSAValue:
    """Return which elements of a span lie below `extent`: `[size]` i1."""
    emit = tiles.emit
    counts = emit.add(tile.IotaOp(IndexType(), span.size))
    left = emit.binary(arith.SubiOp, emit.extent(extent), span.start)
    return emit.add(tile.CompareOp("lt", counts, emit.add(tile.SplatOp(left, [span.size]))))


def find_statistics(tiles: Tiles, ops: Sequence[Operation], row: Index, widest: int) -> None:
    """Emit the statistics of every row operation among `ops`, in order."""
    for op in ops:
        for which in range(len(STATISTICS.get(type(op), ()))):
            found = find_statistic(tiles, op, which, row, widest)
            tiles.statistics[op] = (*tiles.statistics.get(op, ())[:which], found)


def find_statistic(tiles: Tiles, op: Operation, which: int, row: Index, widest: int) -> SSAValue:
    """Emit one statistic of a row operation: `[1]`.

    Chunks are twice as wide as `widest` where that divides the row: sums wait for one another.
    """
    extent = extents(op.operands[0].type)[-1]
    doubled = extent.constant is not None and extent.constant % (2 * widest) == 0
    chunk = chunk_of(extent, 2 * widest if doubled else widest)
    known = tiles.statistics[op][:which] if which else ()
    return STATISTICS[type(op)][which](tiles, op, row, chunk, known)


def _per_row(tiles: Tiles, op: Operation, which: int, index: Index) -> SSAValue:
    if op not in tiles.statistics:
        raise LoweringError(f"{op.name} needs its row's statistics first")
    return spread(tiles, tiles.statistics[op][which], index)


def spread(tiles: Tiles, value: SSAValue, index: Index) -> SSAValue:
    """Repeat a row's statistic `[1]` over the tile at `index`, which lies in that row."""
    emit, rank = tiles.emit, len(index)
    return emit.broadcast(emit.reshape(value, [1] * rank), list(range(rank)), sizes(index))


@statistic(nn.RmsNormOp)
def _inverse_root(tiles: Tiles, op: nn.RmsNormOp, row: Index, chunk: int, known: Known) -> SSAValue:
    emit, extent = tiles.emit, extents(op.x.type)[-1]

    total = _squares(tiles, extent, chunk, lambda span: single(tiles, op.x, (*row, span)))
    mean = emit.binary(arith.DivfOp, total, _count(tiles, extent))
    shifted = emit.binary(arith.AddfOp, mean, emit.full(op.eps.value.data, f32, [1]))
    root = emit.add(math.SqrtOp(shifted))
    return emit.binary(arith.DivfOp, emit.full(1.0, f32, [1]), root)


def _squares(tiles: Tiles, extent: Dim, chunk: int, value: Callable[[Span], SSAValue]) -> SSAValue:
    """Return the sum of the squares of a row: `[1]`."""

    def combine(total: SSAValue, x: SSAValue) -> SSAValue:
        return tiles.emit.fma(x, x, total)

    return fold_row(tiles, extent, chunk, "add", value, combine=combine)


def _count(tiles: Tiles, extent: Dim) -> SSAValue:
    emit = tiles.emit
    if extent.constant is not None:
        return emit.full(float(extent.constant), f32, [1])
    return emit.broadcast(emit.cast(emit.extent(extent), f32), [], [1])


@rule(nn.RmsNormOp)
def _rms_norm(tiles: Tiles, op: nn.RmsNormOp, index: Index, _: SSAValue) -> SSAValue:
    emit = tiles.emit
    x = emit.binary(arith.MulfOp, single(tiles, op.x, index), _per_row(tiles, op, 0, index))
    w = emit.broadcast(single(tiles, op.w, index[-1:]), [len(index) - 1], sizes(index))
    return emit.cast(emit.binary(arith.MulfOp, x, w), nn.element(op.y))


@statistic(nn.LayerNormOp)
def _mean(tiles: Tiles, op: nn.LayerNormOp, row: Index, chunk: int, known: Known) -> SSAValue:
    extent = extents(op.x.type)[-1]
    total = fold_row(tiles, extent, chunk, "add", lambda span: single(tiles, op.x, (*row, span)))
    return tiles.emit.binary(arith.DivfOp, total, _count(tiles, extent))


@statistic(nn.LayerNormOp)
def _inverse_deviation(
    tiles: Tiles, op: nn.LayerNormOp, row: Index, chunk: int, known: Known
) -> SSAValue:
    emit, extent = tiles.emit, extents(op.x.type)[-1]

    def distance(span: Span) -> SSAValue:
        index = (*row, span)
        return emit.binary(arith.SubfOp, single(tiles, op.x, index), spread(tiles, known[0], index))

    squares = _squares(tiles, extent, chunk, distance)
    variance = emit.binary(arith.DivfOp, squares, _count(tiles, extent))
    shifted = emit.binary(arith.AddfOp, variance, emit.full(op.eps.value.data, f32, [1]))
    root = emit.add(math.SqrtOp(shifted))
    return emit.binary(arith.DivfOp, emit.full(1.0, f32, [1]), root)


@rule(nn.LayerNormOp)
def _layer_norm(tiles: Tiles, op: nn.LayerNormOp, index: Index, _: SSAValue) -> SSAValue:
    emit, last = tiles.emit, [len(index) - 1]
    x = emit.binary(arith.SubfOp, single(tiles, op.x, index), _per_row(tiles, op, 0, index))
    x = emit.binary(arith.MulfOp, x, _per_row(tiles, op, 1, index))
    w, b = (emit.broadcast(single(tiles, v, index[-1:]), last, sizes(index)) for v in (op.w, op.b))
    return emit.cast(emit.fma(x, w, b), nn.element(op.y))


@statistic(nn.SoftmaxOp)
def _largest(tiles: Tiles, op: nn.SoftmaxOp, row: Index, chunk: int, known: Known) -> SSAValue:
    emit, extent = tiles.emit, extents(op.x.type)[-1]
    if op.axis.value.data != len(extents(op.x.type)) - 1:
        raise LoweringError("a softmax kernel takes the last axis")

    def larger(largest: SSAValue, x: SSAValue) -> SSAValue:
        # A NaN need not be found here: it makes the sum one.
        return emit.add(tile.SelectOp(emit.add(tile.CompareOp("gt", x, largest)), x, largest))

    def read(span: Span) -> SSAValue:
        return single(tiles, op.x, (*row, span))

    return fold_row(tiles, extent, chunk, "max", read, combine=larger)


@statistic(nn.SoftmaxOp)
def _inverse_sum(tiles: Tiles, op: nn.SoftmaxOp, row: Index, chunk: int, known: Known) -> SSAValue:
    emit, extent = tiles.emit, extents(op.x.type)[-1]

    def power(span: Span) -> SSAValue:
        index = (*row, span)
        found = _shifted_exp(tiles, op, index, known[0])
        if op in tiles.rooms:
            tiles.store(found, *tiles.room_of(op, index))
        tiles.ask_ahead(index, LINE)
        return found

    total = fold_row(tiles, extent, chunk, "add", power)
    return emit.binary(arith.DivfOp, emit.full(1.0, f32, [1]), total)


def _shifted_exp(tiles: Tiles, op: nn.SoftmaxOp, index: Index, largest: SSAValue) -> SSAValue:
    emit = tiles.emit
    shifted = emit.binary(arith.SubfOp, single(tiles, op.x, index), spread(tiles, largest, index))
    return emit.decay(shifted)


@rule(nn.SoftmaxOp)
def _softmax(tiles: Tiles, op: nn.SoftmaxOp, index: Index, _: SSAValue) -> SSAValue:
    if op in tiles.rooms:
        power = tiles.emit.reshape(tiles.load(*tiles.room_of(op, index)), sizes(index))
    else:
        power = _shifted_exp(tiles, op, index, tiles.statistics[op][0])
    y = tiles.emit.binary(arith.MulfOp, power, _per_row(tiles, op, 1, index))
    return tiles.emit.cast(y, nn.element(op.y))


@statistic(nn.ReduceOp)
def _reduction(tiles: Tiles, op: nn.ReduceOp, row: Index, chunk: int, known: Known) -> SSAValue:
    shape = extents(op.x.type)
    kind, element = kind_of(op), accumulator(nn.element(op.x))
    if tile.values(op.dims) != (len(shape) - 1,) or kind not in COMBINE:
        raise LoweringError(f"a row kernel reduces the last dimension by one of {list(COMBINE)}")

    def read(span: Span) -> SSAValue:
        return wide(tiles, op.x, (*row, span))

    return fold_row(tiles, shape[-1], chunk, kind, read, element)


@rule(nn.ReduceOp)
def _reduced(tiles: Tiles, op: nn.ReduceOp, index: Index, _: SSAValue) -> SSAValue:
    if op not in tiles.statistics:
        raise LoweringError(f"{op.name} needs its row's statistics first")
    total = tiles.emit.cast(tiles.statistics[op][0], nn.element(op.y))
    return tiles.emit.reshape(total, sizes(index))
