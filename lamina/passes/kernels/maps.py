"""Tile rules of the operations that map elements to elements."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    f32,
    f64,
)
from xdsl.ir import Operation, SSAValue

from lamina.dialects import nn, tile
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents, is_unsigned
from lamina.errors import LoweringError
from lamina.passes.decompose_math import DOUBLES, FORMULAS
from lamina.passes.formulas import activations, doubles, exponentials
from lamina.passes.formulas.constants import Constants
from lamina.passes.formulas.formula import Formula
from lamina.passes.kernels import signs
from lamina.passes.kernels.general_geometry import number_of
from lamina.passes.kernels.shared_checks import sources_of
from lamina.passes.kernels.subscripts import Index, Rows, Span, Subscript, sizes
from lamina.passes.kernels.tiles import Tiles, found_rows, rule, split_span

UNARY: dict[type[Operation], type[Any]] = {
    nn.NegOp: arith.NegfOp,
    nn.AbsOp: math.AbsFOp,
    nn.ExpOp: math.ExpOp,
    nn.LogOp: math.LogOp,
    nn.SqrtOp: math.SqrtOp,
    nn.RsqrtOp: math.RsqrtOp,
    nn.TanhOp: math.TanhOp,
    nn.ErfOp: math.ErfOp,
    nn.SinOp: math.SinOp,
    nn.CosOp: math.CosOp,
    nn.TanOp: math.TanOp,
    nn.AsinOp: math.AsinOp,
    nn.AcosOp: math.AcosOp,
    nn.AtanOp: math.AtanOp,
    nn.SinhOp: math.SinhOp,
    nn.CoshOp: math.CoshOp,
    nn.AsinhOp: math.AsinhOp,
    nn.AcoshOp: math.AcoshOp,
    nn.AtanhOp: math.AtanhOp,
    nn.FloorOp: math.FloorOp,
    nn.CeilOp: math.CeilOp,
    nn.RoundOp: math.RoundEvenOp,
}
"""Operations of one float operand and the `math` or `arith` operation that is each."""

BINARY: dict[type[Operation], tuple[type[Any] | None, type[Any] | None]] = {
    nn.AddOp: (arith.AddfOp, arith.AddiOp),
    nn.SubOp: (arith.SubfOp, arith.SubiOp),
    nn.MulOp: (arith.MulfOp, arith.MuliOp),
    nn.DivOp: (arith.DivfOp, arith.DivSIOp),
    nn.MaxOp: (arith.MaximumfOp, arith.MaxSIOp),
    nn.MinOp: (arith.MinimumfOp, arith.MinSIOp),
    nn.AndOp: (None, arith.AndIOp),
    nn.OrOp: (None, arith.OrIOp),
    nn.XorOp: (None, arith.XOrIOp),
    nn.ShlOp: (None, arith.ShLIOp),
    nn.ShrOp: (None, arith.ShRUIOp),
}
"""Operations of two operands, for floats and for integers."""


@rule(*UNARY)
def _unary(tiles: Tiles, op: Operation, index: Index, _: SSAValue) -> SSAValue:
    x = tiles.tile_of(op.operands[0], index)
    if not isinstance(tile.element_of(x.type), AnyFloat):
        return _integer_unary(tiles, op, x)
    return tiles.emit.add(known(UNARY[type(op)], x)(x))


@rule(nn.SigmoidOp, nn.SiluOp, nn.SoftplusOp, nn.GeluOp)
def _activation(tiles: Tiles, op: Operation, index: Index, _: SSAValue) -> SSAValue:
    """A formula of its own is nearer, or shorter, than a chain of `math` functions."""
    emit, x = tiles.emit, tiles.tile_of(op.operands[0], index)
    kind = tile.element_of(x.type)
    wide = f64 if kind == f64 else f32
    if kind == f64 and not isinstance(op, nn.SigmoidOp):
        raise LoweringError(f"{op.name} of f64 has no formula")
    formula = Formula(emit.add, Constants(emit.entry), tile.shape_of(x.type), wide)
    if kind == f64:
        return doubles.sigmoid(formula, x)
    return emit.cast(_formula_of(op)(formula, emit.cast(x, f32)), kind)


def _formula_of(op: Operation) -> Callable[[Formula, SSAValue], SSAValue]:
    match op:
        case nn.SiluOp():
            return activations.silu
        case nn.SoftplusOp():
            return activations.softplus
        case nn.GeluOp():
            return activations.gelu if op.approximate is None else activations.gelu_tanh
        case _:
            return exponentials.sigmoid


def known(function: type[Any], x: SSAValue) -> type[Any]:
    """Return a function that kernels can compute on elements like those of `x`."""
    if function in FORMULAS and function not in DOUBLES and tile.element_of(x.type) == f64:
        raise LoweringError(f"{function.name} of f64 has no formula")
    return function


def _integer_unary(tiles: Tiles, op: Operation, x: SSAValue) -> SSAValue:
    emit = tiles.emit
    zero = emit.full(0, tile.element_of(x.type), tile.shape_of(x.type))
    negative = emit.binary(arith.SubiOp, zero, x)
    if isinstance(op, nn.NegOp):
        return negative
    if isinstance(op, nn.AbsOp):
        unsigned = is_unsigned(nn.element(op.x))
        return x if unsigned else emit.binary(arith.MaxSIOp, x, negative)
    raise LoweringError(f"{op.name} of integers has no tile rule")


@rule(*BINARY)
def _binary(tiles: Tiles, op: Operation, index: Index, _: SSAValue) -> SSAValue:
    a, b = (tiles.tile_of(operand, index) for operand in op.operands)
    on_floats, on_integers = BINARY[type(op)]
    kind = on_floats if isinstance(tile.element_of(a.type), AnyFloat) else on_integers
    if kind is None:
        raise LoweringError(f"{op.name} of {tile.element_of(a.type)} has no tile rule")
    return tiles.emit.binary(signs.on(kind, nn.element(op.operands[0])), a, b)


@rule(nn.CompareOp)
def _compare(tiles: Tiles, op: nn.CompareOp, index: Index, _: SSAValue) -> SSAValue:
    a, b = tiles.tile_of(op.a, index), tiles.tile_of(op.b, index)
    unsigned = is_unsigned(nn.element(op.a))
    return tiles.emit.add(tile.CompareOp(op.kind.data, a, b, unsigned=unsigned))


@rule(nn.SelectOp)
def _select(tiles: Tiles, op: nn.SelectOp, index: Index, _: SSAValue) -> SSAValue:
    c, a, b = (tiles.tile_of(operand, index) for operand in op.operands)
    return tiles.emit.add(tile.SelectOp(c, a, b))


@rule(nn.CastOp)
def _cast(tiles: Tiles, op: nn.CastOp, index: Index, _: SSAValue) -> SSAValue:
    x, to = tiles.tile_of(op.x, index), nn.element(op.y)
    from_float = isinstance(tile.element_of(x.type), AnyFloat)
    if from_float and not isinstance(to, AnyFloat):
        x = tiles.emit.add(math.TruncOp(x))
    whole = to if from_float else nn.element(op.x)
    return tiles.emit.cast(x, to, unsigned=is_unsigned(whole))


@rule(nn.ConstantOp)
def _constant(tiles: Tiles, op: nn.ConstantOp, index: Index, _: SSAValue) -> SSAValue:
    if isinstance(op.value, DenseIntOrFPElementsAttr):
        raise LoweringError("a listed constant belongs to @prepare")
    if (number := number_of(op)) is not None:
        emit = tiles.emit
        return emit.broadcast(emit.cast(emit.extent(number), nn.element(op.y)), [], sizes(index))
    value = cast("FloatAttr[Any] | IntegerAttr[Any]", op.value).value.data
    return tiles.emit.full(value, nn.element(op.y), sizes(index))


@rule(nn.IotaOp)
def _iota(tiles: Tiles, op: nn.IotaOp, index: Index, _: SSAValue) -> SSAValue:
    dim, emit = op.dim.value.data, tiles.emit
    sub = index[dim]
    if isinstance(sub, Rows):
        counts = sub.indices
    else:
        counts = emit.add(tile.IotaOp(IndexType(), sub.size))
        start = emit.add(tile.SplatOp(sub.start, [sub.size]))
        counts = emit.binary(arith.AddiOp, counts, start)
    return emit.broadcast(emit.cast(counts, nn.element(op.y)), [dim], sizes(index))


@rule(nn.ExtentsOp)
def _extents(tiles: Tiles, op: nn.ExtentsOp, index: Index, _: SSAValue) -> SSAValue:
    emit, shape, (first, *others) = tiles.emit, sizes(index), op.extents or (Dim.of(0),)
    found = emit.broadcast(emit.extent(first), [], shape)
    for place, dim in enumerate(others, 1):
        here = emit.full(place, IndexType(), shape)
        here = emit.add(tile.CompareOp("eq", indices_of(tiles, index[0]), here))
        value = emit.add(tile.SplatOp(emit.extent(dim), shape))
        found = emit.add(tile.SelectOp(here, value, found))
    return emit.cast(found, nn.element(op.y))


@rule(nn.BroadcastOp)
def _broadcast(tiles: Tiles, op: nn.BroadcastOp, index: Index, _: SSAValue) -> SSAValue:
    emit, dims = tiles.emit, tile.values(op.dims)
    y = extents(op.y.type)
    one = Span(emit.index(0), 1, inside=True)
    inner = tuple(
        one if n == 1 and y[d] != 1 else index[d]
        for n, d in zip(extents(op.x.type), dims, strict=True)
    )
    return emit.broadcast(tiles.tile_of(op.x, inner), dims, sizes(index))


@rule(nn.TransposeOp)
def _transpose(tiles: Tiles, op: nn.TransposeOp, index: Index, _: SSAValue) -> SSAValue:
    perm = tile.values(op.perm)
    inner = tuple(index[perm.index(d)] for d in range(len(perm)))
    return tiles.emit.add(tile.TransposeOp(tiles.tile_of(op.x, inner), perm))


@rule(nn.SliceOp)
def _slice(tiles: Tiles, op: nn.SliceOp, index: Index, _: SSAValue) -> SSAValue:
    emit = tiles.emit
    steps = tile.values(op.step) or (1,) * len(index)
    inner: list[Subscript] = []
    shape = extents(op.x.type)
    for sub, start, step, extent in zip(index, op.starts, steps, shape, strict=True):
        if start == 0 and step == 1:
            inner.append(sub)
        else:
            inner.append(_stride(tiles, sub, start, step, extent))
    return emit.reshape(tiles.tile_of(op.x, tuple(inner)), sizes(index))


def _stride(tiles: Tiles, sub: Subscript, start: Dim, step: int, extent: Dim) -> Subscript:
    """Where a tile of a slice lies in a dimension of `extent` elements."""
    emit = tiles.emit
    offset = emit.extent(start)
    if isinstance(sub, Span) and step == 1:
        first = emit.add(arith.AddiOp(sub.start, offset))
        return Span(first, sub.size, sub.inside, None if sub.inside else emit.extent(extent))
    indices = indices_of(tiles, sub)
    scaled = emit.binary(arith.MuliOp, indices, emit.full(step, IndexType(), [sub.size]))
    shifted = emit.binary(arith.AddiOp, scaled, emit.add(tile.SplatOp(offset, [sub.size])))
    return Rows(shifted, sub.size, sub.inside)


def indices_of(tiles: Tiles, sub: Subscript) -> SSAValue:
    """Return where the elements of a subscript are: [size] index."""
    if isinstance(sub, Rows):
        return sub.indices
    emit = tiles.emit
    counts = emit.add(tile.IotaOp(IndexType(), sub.size))
    return emit.binary(arith.AddiOp, counts, emit.add(tile.SplatOp(sub.start, [sub.size])))


@rule(nn.ReshapeOp)
def _reshape(tiles: Tiles, op: nn.ReshapeOp, index: Index, _: SSAValue) -> SSAValue:
    inner = _regroup(tiles, extents(op.y.type), extents(op.x.type), index)
    return tiles.emit.reshape(tiles.tile_of(op.x, inner), sizes(index))


def _regroup(tiles: Tiles, outer: tuple[Dim, ...], inner: tuple[Dim, ...], index: Index) -> Index:
    """Return where a tile of the reshaped tensor lies in the tensor before."""
    result: list[Subscript] = []
    i = j = 0
    while i < len(outer) or j < len(inner):
        m, n = _step(outer, inner, i, j)
        result += _carry(tiles, outer[i : i + m], inner[j : j + n], index[i : i + m])
        i, j = i + m, j + n
    return tuple(result)


def _step(outer: tuple[Dim, ...], inner: tuple[Dim, ...], i: int, j: int) -> tuple[int, int]:
    """Return how many dimensions of each side make the next equal product."""
    for m in range(len(outer) - i + 1):
        for n in range(len(inner) - j + 1):
            if (m, n) == (0, 0) or min(m, n) > 1:
                continue
            a, b = Dim.of(1), Dim.of(1)
            for dim in outer[i : i + m]:
                a = a * dim
            for dim in inner[j : j + n]:
                b = b * dim
            if a == b:
                return m, n
    return len(outer) - i, len(inner) - j


def _carry(
    tiles: Tiles, outer: tuple[Dim, ...], inner: tuple[Dim, ...], index: Index
) -> list[Subscript]:
    emit = tiles.emit
    if len(outer) == 1 and len(inner) == 1:
        return list(index)
    if not outer:
        return [Span(emit.index(0), 1, inside=True) for _ in inner]
    if not inner:
        return []
    merged = index[0] if len(outer) == 1 else _merge(tiles, outer, index)
    if len(inner) == 1:
        return [merged]
    if isinstance(merged, Rows):
        raise LoweringError("rows of a dimension that is split have no rule")
    return split_span(emit, inner, merged)


def _merge(tiles: Tiles, outer: tuple[Dim, ...], index: Index) -> Subscript:
    """A tile over several dimensions that become one: all but one of them single elements."""
    emit = tiles.emit
    wide = [d for d, sub in enumerate(index) if sub.size > 1]
    whole = wide and all(outer[d] == index[d].size for d in wide[1:])
    if len(wide) > 1 and not whole:
        raise LoweringError("a tile over several merged dimensions is no span")
    start, size = emit.index(0), 1
    for dim, sub in zip(outer, index, strict=True):
        if isinstance(sub, Rows):
            return _merge_rows(tiles, outer, index)
        scaled = emit.add(arith.MuliOp(start, emit.extent(dim)))
        start, size = emit.add(arith.AddiOp(scaled, sub.start)), size * sub.size
    if wide and any(outer[d] != 1 for d in range(wide[-1] + 1, len(outer))):
        raise LoweringError("a tile along an outer merged dimension is no span")
    return Span(start, size, all(sub.inside for sub in index))


def _merge_rows(tiles: Tiles, outer: tuple[Dim, ...], index: Index) -> Subscript:
    emit = tiles.emit
    size = max(sub.size for sub in index)
    if sum(sub.size > 1 for sub in index) > 1:
        raise LoweringError("a tile of rows over several merged dimensions has no rule")
    total = emit.full(0, IndexType(), [size])
    for dim, sub in zip(outer, index, strict=True):
        scaled = emit.binary(arith.MuliOp, total, emit.add(tile.SplatOp(emit.extent(dim), [size])))
        step = indices_of(tiles, sub)
        if sub.size == 1:
            step = emit.broadcast(step, [0], [size])
        total = emit.binary(arith.AddiOp, scaled, step)
    return Rows(total, size, all(sub.inside for sub in index))


@rule(nn.GatherOp)
def _gather(tiles: Tiles, op: nn.GatherOp, index: Index, _: SSAValue) -> SSAValue:
    axis, rank = op.axis.value.data, len(extents(op.indices.type))
    lead, where, rest = index[:axis], index[axis : axis + rank], index[axis + rank :]
    count = prod(sub.size for sub in where)
    if count != max((1, *(sub.size for sub in where))):
        raise LoweringError("a fused gather takes rows by one dimension of ids")
    ids = tiles.emit.reshape(tiles.tile_of(op.indices, where), [count])
    rows = found_rows(tiles, ids, extents(op.x.type)[axis], sources_of(op))
    found = tiles.tile_of(op.x, (*lead, rows, *rest))
    return tiles.emit.reshape(found, sizes(index))


def turns_whole_heads(op: nn.RopeOp) -> bool:
    """Whether a rotation is done on whole heads only: of halves, or of a part of a head."""
    rotated = extents(op.cos.type)[1] * 2
    return op.interleaved is None or rotated != extents(op.x.type)[2]


@rule(nn.RopeOp)
def _rope(tiles: Tiles, op: nn.RopeOp, index: Index, _: SSAValue) -> SSAValue:
    emit = tiles.emit
    rows, heads, size = sizes(index)
    if heads != 1:
        raise LoweringError("a fused rope takes one head at a time")
    if turns_whole_heads(op) and extents(op.x.type)[2] != size:
        raise LoweringError("a fused rope of halves takes whole heads")
    x = emit.reshape(tiles.tile_of(op.x, index), [rows, size])
    turned, span = size, cast("Span", index[2])
    where = Span(emit.over(span.start, 2), size // 2, span.inside)
    if turns_whole_heads(op):
        turned = extents(op.cos.type)[1].evaluate({}) * 2
        where = Span(emit.index(0), turned // 2, inside=True)
    first = x if turned == size else emit.add(tile.SliceOp(x, [0, 0], [rows, turned]))
    turn = _turn_halves if op.interleaved is None else _turn_pairs
    y = turn(tiles, op, first, (index[0], where))
    if turned < size:
        rest = emit.add(tile.SliceOp(x, [0, turned], [rows, size - turned]))
        y = emit.add(tile.JoinOp([y, rest], 1))
    return emit.reshape(y, sizes(index))


def _turn_pairs(tiles: Tiles, op: nn.RopeOp, x: SSAValue, where: Index) -> SSAValue:
    emit = tiles.emit
    rows, size = tile.shape_of(x.type)
    half = [rows, size // 2]
    pairs = emit.reshape(x, [*half, 2])
    a, b = (
        emit.reshape(emit.add(tile.SliceOp(pairs, [0, 0, k], [*half, 1])), half) for k in (0, 1)
    )
    parts = [emit.reshape(part, [*half, 1]) for part in _turn(tiles, op, a, b, where)]
    return emit.reshape(emit.add(tile.JoinOp(parts, 2)), [rows, size])


def _turn_halves(tiles: Tiles, op: nn.RopeOp, x: SSAValue, where: Index) -> SSAValue:
    emit = tiles.emit
    rows, size = tile.shape_of(x.type)
    a, b = (emit.add(tile.SliceOp(x, [0, k], [rows, size // 2])) for k in (0, size // 2))
    return emit.add(tile.JoinOp(list(_turn(tiles, op, a, b, where)), 1))


def _turn(
    tiles: Tiles, op: nn.RopeOp, a: SSAValue, b: SSAValue, where: Index
) -> tuple[SSAValue, SSAValue]:
    emit = tiles.emit
    cos, sin = tiles.tile_of(op.cos, where), tiles.tile_of(op.sin, where)
    a_sin, b_sin = (emit.binary(arith.MulfOp, half, sin) for half in (a, b))
    a_cos, b_cos = (emit.binary(arith.MulfOp, half, cos) for half in (a, b))
    return emit.binary(arith.SubfOp, a_cos, b_sin), emit.binary(arith.AddfOp, a_sin, b_cos)
