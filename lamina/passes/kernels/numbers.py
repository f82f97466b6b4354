"""Tile rules of arithmetic that kernels have no operation for: powers, remainders, codes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, IntegerType, f32, f64, i32
from xdsl.ir import SSAValue

from lamina.dialects import nn, tile
from lamina.dialects.tensors import is_unsigned, signless
from lamina.errors import LoweringError
from lamina.passes.formulas import byte_floats, remainders
from lamina.passes.formulas.constants import Constants
from lamina.passes.formulas.formula import Formula
from lamina.passes.kernels.emit import Emit
from lamina.passes.kernels.maps import known
from lamina.passes.kernels.signs import on
from lamina.passes.kernels.subscripts import Index
from lamina.passes.kernels.tiles import Tiles, rule


@rule(nn.PowOp)
def _power(tiles: Tiles, op: nn.PowOp, index: Index, _: SSAValue) -> SSAValue:
    emit, element = tiles.emit, nn.element(op.a)
    a, b = tiles.tile_of(op.a, index), tiles.tile_of(op.b, index)
    if isinstance(element, AnyFloat):
        return emit.add(known(math.PowFOp, a)(a, b))
    bits = cast("IntegerType[Any, Any]", element).width.data
    zero, one = _full(emit, 0, a), _full(emit, 1, a)

    def step(_: SSAValue, power: SSAValue, base: SSAValue, left: SSAValue) -> Sequence[SSAValue]:
        odd = emit.add(tile.CompareOp("ne", emit.binary(arith.AndIOp, left, one), zero))
        power = emit.add(tile.SelectOp(odd, emit.binary(arith.MuliOp, power, base), power))
        base = emit.binary(arith.MuliOp, base, base)
        return [power, base, emit.binary(arith.ShRUIOp, left, one)]

    end, by = emit.index(bits), emit.index(1)
    power = tiles.loop(emit.index(0), end, by, [one, a, b], step)[0]
    if is_unsigned(element):
        return power
    size = emit.binary(arith.MaxSIOp, a, emit.binary(arith.SubiOp, zero, a))
    inverse = emit.binary(arith.AndIOp, _is(emit, "lt", b, zero), _is(emit, "ne", size, one))
    return emit.add(tile.SelectOp(inverse, zero, power))


@rule(nn.ModOp)
def _remainder(tiles: Tiles, op: nn.ModOp, index: Index, _: SSAValue) -> SSAValue:
    emit, element = tiles.emit, nn.element(op.a)
    a, b = tiles.tile_of(op.a, index), tiles.tile_of(op.b, index)
    if isinstance(element, AnyFloat):
        return _float_remainder(tiles, op, a, b)
    rest = emit.binary(on(arith.RemSIOp, element), a, b)
    if op.floor is None or is_unsigned(element):
        return rest
    zero = _full(emit, 0, a)
    apart = _is(emit, "lt", emit.binary(arith.XOrIOp, rest, b), zero)
    apart = emit.binary(arith.AndIOp, apart, _is(emit, "ne", rest, zero))
    return emit.add(tile.SelectOp(apart, emit.binary(arith.AddiOp, rest, b), rest))


def _float_remainder(tiles: Tiles, op: nn.ModOp, a: SSAValue, b: SSAValue) -> SSAValue:
    emit, element = tiles.emit, nn.element(op.a)
    if element == f64:
        raise LoweringError(f"{op.name} of f64 has no formula")
    f, x, y = _formula(tiles, a), emit.cast(a, f32), emit.cast(b, f32)
    divisor = remainders.Parts.of(f, y)

    def step(_: SSAValue, rest: SSAValue, left: SSAValue) -> Sequence[SSAValue]:
        return remainders.shift(f, rest, left, divisor)

    start = remainders.begin(f, remainders.Parts.of(f, x), divisor)
    count, by = emit.index(remainders.STEPS), emit.index(1)
    rest = tiles.loop(emit.index(0), count, by, start, step)[0]
    finish = remainders.fmod if op.floor is None else remainders.floor_mod
    return emit.cast(finish(f, rest, x, y), element)


@rule(nn.SignOp)
def _sign(tiles: Tiles, op: nn.SignOp, index: Index, _: SSAValue) -> SSAValue:
    emit, element = tiles.emit, nn.element(op.x)
    x = tiles.tile_of(op.x, index)
    zero = _full(emit, 0, x)
    if is_unsigned(element):
        return emit.add(tile.SelectOp(_is(emit, "eq", x, zero), zero, _full(emit, 1, x)))
    y = emit.add(tile.SelectOp(_is(emit, "eq", x, zero), zero, x))
    y = emit.add(tile.SelectOp(_is(emit, "gt", x, zero), _full(emit, 1, x), y))
    return emit.add(tile.SelectOp(_is(emit, "lt", x, zero), _full(emit, -1, x), y))


@rule(nn.BitcastOp)
def _bitcast(tiles: Tiles, op: nn.BitcastOp, index: Index, _: SSAValue) -> SSAValue:
    x, to = tiles.tile_of(op.x, index), signless(nn.element(op.y))
    if tile.element_of(x.type) == to:
        return x
    return tiles.emit.add(arith.BitcastOp(x, tile.vector(to, tile.shape_of(x.type))))


@rule(nn.DecodeOp)
def _decode(tiles: Tiles, op: nn.DecodeOp, index: Index, _: SSAValue) -> SSAValue:
    x = tiles.emit.cast(tiles.tile_of(op.x, index), i32, unsigned=True)
    return tiles.emit.cast(byte_floats.decode(_formula(tiles, x), x, op.code), nn.element(op.y))


@rule(nn.EncodeOp)
def _encode(tiles: Tiles, op: nn.EncodeOp, index: Index, _: SSAValue) -> SSAValue:
    x = tiles.emit.cast(tiles.tile_of(op.x, index), f32)
    saturate = op.saturate is not None
    codes = byte_floats.encode(_formula(tiles, x), x, op.code, saturate=saturate)
    return tiles.emit.cast(codes, nn.element(op.y))


def _formula(tiles: Tiles, like: SSAValue) -> Formula:
    emit = tiles.emit
    return Formula(emit.add, Constants(emit.entry), tile.shape_of(like.type))


def _full(emit: Emit, value: int, like: SSAValue) -> SSAValue:
    return emit.full(value, tile.element_of(like.type), tile.shape_of(like.type))


def _is(emit: Emit, kind: str, a: SSAValue, b: SSAValue) -> SSAValue:
    return emit.add(tile.CompareOp(kind, a, b))
