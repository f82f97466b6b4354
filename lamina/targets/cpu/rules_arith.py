"""`arith` on scalars and tiles, and the comparisons and choices of `tile`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr
from xdsl.ir import Operation, SSAValue

from lamina.dialects import tile
from lamina.dialects.tile import shape_of
from lamina.targets.cpu import divide
from lamina.targets.cpu.elements import (
    F32,
    I1,
    Element,
    element,
    literal,
    splat_literal,
    vector_literal,
)
from lamina.targets.cpu.emitter import Emitter, Rule
from lamina.targets.cpu.halves import narrow_half, widen_half
from lamina.targets.cpu.integers import add, multiply, subtract
from lamina.targets.cpu.lanes import Lanes
from lamina.targets.cpu.ranges import Range
from lamina.targets.cpu.shuffles import rechunk
from lamina.targets.cpu.values import Tile

Write = Callable[[Lanes, list[str]], str]
"""Writes one part of a result, given the operands' parts and what kind of lanes they have."""


def elementwise(emitter: Emitter, op: Operation, write: Write) -> None:
    """Set the result of `op` to `write` of its operands, part by part, when it is needed.

    Operands are cut as finely as the finest of them (a mask may be cut unusually).
    """
    operands = [emitter.tile(value) for value in op.operands]
    result = element(op.results[0].type)
    kind = operands[0].element
    width = min(x.width for x in operands)
    cut = [rechunk(emitter.builder, x, width) for x in operands]

    def make(part: int) -> str:
        return write(Lanes(emitter.builder, kind, width), [x.part(part) for x in cut])

    def lane(index: int) -> str:
        return write(Lanes(emitter.builder, kind, 0), [x.lane(index) for x in operands])

    alone = all(x.scalars for x in operands)
    emitter.set(
        op.results[0],
        Tile(emitter.builder, result, operands[0].shape, width, make, lane=lane if alone else None),
    )


def in_single(emitter: Emitter, write: Write) -> Write:
    """Return `write` for 16-bit floats too: through f32 and back."""
    native = emitter.features.half

    def wrapped(lanes: Lanes, xs: list[str]) -> str:
        if not lanes.kind.half:
            return write(lanes, xs)
        wide = [widen_half(lanes, x, native=native) for x in xs]
        return narrow_half(lanes, write(lanes.to(F32), wide), native=native)

    return wrapped


def _float(name: str) -> Rule:
    def rule(emitter: Emitter, op: Operation) -> None:
        write: Write = lambda lanes, xs: lanes.op(name, xs[0], xs[1])  # noqa: E731
        elementwise(emitter, op, in_single(emitter, write))

    return rule


def _integer(name: str) -> Rule:
    fold = {"add": add, "sub": subtract, "mul": multiply}.get(name)

    def write(lanes: Lanes, xs: list[str]) -> str:
        if fold is not None and not lanes.width and lanes.kind.llvm == "i64":
            return fold(lanes.builder, xs[0], xs[1])
        return lanes.op(name, xs[0], xs[1])

    return lambda emitter, op: elementwise(emitter, op, write)


def _intrinsic(name: str) -> Rule:
    return lambda emitter, op: elementwise(emitter, op, lambda lanes, xs: lanes.call(name, *xs))


def _constant_below(text: str, bound: int) -> bool:
    """Whether `text` is a literal, the same in every lane, in [0, bound)."""
    digits = text.removeprefix("splat (").rstrip(")").split(" ")[-1]
    return not text.startswith(("%", "<")) and digits.isdecimal() and int(digits) < bound


def _shift(name: str) -> Rule:
    def write(lanes: Lanes, xs: list[str]) -> str:
        x, count = xs
        bits = lanes.kind.bits
        if _constant_below(count, bits):
            return lanes.op(name, x, count)
        within = lanes.compare("ult", count, lanes.constant(bits))
        shifted = lanes.op(name, x, lanes.op("and", count, lanes.constant(bits - 1)))
        return lanes.select(within, shifted, lanes.constant(0))

    return lambda emitter, op: elementwise(emitter, op, write)


def _extreme(name: str) -> Rule:
    def write(lanes: Lanes, xs: list[str]) -> str:
        a, b = xs
        if _number(b):
            a, b = b, a
        return lanes.extreme(name, a, b, number=_number(a))

    return lambda emitter, op: elementwise(emitter, op, in_single(emitter, write))


def _number(text: str) -> bool:
    return not text.startswith("%") and "0x7FF" not in text and "0xFFF" not in text


def _negate(emitter: Emitter, op: arith.NegfOp) -> None:
    def write(lanes: Lanes, xs: list[str]) -> str:
        if lanes.kind.half:
            return lanes.op("xor", xs[0], lanes.ints.constant(-0x8000))
        return lanes.builder.pure(f"fneg {lanes.type} {xs[0]}", xs[0])

    elementwise(emitter, op, write)


def _division(write: divide.Division) -> Rule:
    def rule(emitter: Emitter, op: Operation) -> None:
        known = [_known_range(emitter, value) for value in op.operands]
        elementwise(emitter, op, lambda lanes, xs: write(lanes, xs[0], xs[1], *known))

    return rule


def _known_range(emitter: Emitter, value: SSAValue) -> Range:
    if shape_of(value.type):
        return emitter.range(value)
    known = emitter.literal(value)
    return emitter.range(value) if known is None else Range.exactly(known)


_SCALAR_INTEGER: Final = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_SCALAR_FLOAT: Final = (
    "false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord",
    "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true",
)  # fmt: skip


def _cmpi(emitter: Emitter, op: arith.CmpiOp) -> None:
    name = _SCALAR_INTEGER[op.predicate.value.data]
    elementwise(emitter, op, lambda lanes, xs: lanes.compare(name, xs[0], xs[1]))


def _cmpf(emitter: Emitter, op: arith.CmpfOp) -> None:
    _compare_floats(emitter, op, _SCALAR_FLOAT[op.predicate.value.data])


def _compare(emitter: Emitter, op: tile.CompareOp) -> None:
    kind, name = element(op.a.type), op.kind.data
    if kind.floating:
        _compare_floats(emitter, op, f"{'u' if name == 'ne' else 'o'}{name}")
        return
    # An i1 is 0 or 1: as a signed bit its 1 would be the lesser.
    unsigned = op.unsigned is not None or kind is I1
    prefix = "" if name in ("eq", "ne") else "u" if unsigned else "s"
    elementwise(emitter, op, lambda lanes, xs: lanes.compare(prefix + name, xs[0], xs[1]))


def _compare_floats(emitter: Emitter, op: Operation, name: str) -> None:
    native = emitter.features.half

    def write(lanes: Lanes, xs: list[str]) -> str:
        if lanes.kind.half:
            xs = [widen_half(lanes, x, native=native) for x in xs]
            lanes = lanes.to(F32)
        return lanes.compare(name, xs[0], xs[1])

    elementwise(emitter, op, write)


def _select(emitter: Emitter, op: Operation) -> None:
    condition, a, b = (emitter.tile(value) for value in op.operands)
    known = [emitter.range(value) for value in op.operands[1:]]
    emitter.ranges[op.results[0]] = known[0].union(known[1])
    width = a.width if not condition.width else min(condition.width, a.width, b.width)
    x, y = (rechunk(emitter.builder, v, width) for v in (a, b))
    lanes = Lanes(emitter.builder, a.element, width)
    mask = condition if not condition.width else rechunk(emitter.builder, condition, width)

    def make(part: int) -> str:
        if condition.width:
            return lanes.select(mask.part(part), x.part(part), y.part(part))
        names = (condition.part(0), x.part(part), y.part(part))
        text = f"select i1 {names[0]}, {lanes.type} {names[1]}, {lanes.type} {names[2]}"
        return emitter.builder.pure(text, *names)

    emitter.set(op.results[0], Tile(emitter.builder, a.element, a.shape, width, make))


def _bitcast(emitter: Emitter, op: arith.BitcastOp) -> None:
    target = element(op.result.type)
    elementwise(emitter, op, lambda lanes, xs: lanes.convert("bitcast", xs[0], target))


def _constant(emitter: Emitter, op: arith.ConstantOp) -> None:
    value, shape = op.value, shape_of(op.result.type)
    kind = element(op.result.type)
    if isinstance(value, DenseIntOrFPElementsAttr):
        _dense(emitter, op, kind, value)
        return
    number = cast("Any", value).value.data
    assert isinstance(value, IntegerAttr | FloatAttr)
    if not kind.floating:
        emitter.ranges[op.result] = Range.exactly(number)
    text = literal(kind, number)
    emitter.set(op.result, emitter.make(kind, shape, lambda _: text))


def _dense(emitter: Emitter, op: arith.ConstantOp, kind: Element, value: Any) -> None:
    shape, width = shape_of(op.result.type), emitter.width(op.result)
    numbers: list[Any] = list(value.get_values())
    if len(set(numbers)) == 1 and numbers[0] == numbers[0]:
        text = splat_literal(kind, width, numbers[0])
        one = literal(kind, numbers[0])
        make: Callable[[int], str] = lambda _: text  # noqa: E731
        lane: Callable[[int], str] = lambda _: one  # noqa: E731
    else:
        make = lambda i: vector_literal(kind, numbers[i * width : (i + 1) * width])  # noqa: E731
        lane = lambda i: literal(kind, numbers[i])  # noqa: E731
    if not kind.floating:
        emitter.ranges[op.result] = Range(min(numbers), max(numbers))
    emitter.set(op.result, Tile(emitter.builder, kind, shape, width, make, lane=lane))


RULES: Final[dict[type[Operation], Rule]] = {
    arith.ConstantOp: _constant,
    arith.AddfOp: _float("fadd"),
    arith.SubfOp: _float("fsub"),
    arith.MulfOp: _float("fmul"),
    arith.DivfOp: _float("fdiv"),
    arith.NegfOp: _negate,
    arith.MaximumfOp: _extreme("max"),
    arith.MinimumfOp: _extreme("min"),
    arith.AddiOp: _integer("add"),
    arith.SubiOp: _integer("sub"),
    arith.MuliOp: _integer("mul"),
    arith.AndIOp: _integer("and"),
    arith.OrIOp: _integer("or"),
    arith.XOrIOp: _integer("xor"),
    arith.ShLIOp: _shift("shl"),
    arith.ShRUIOp: _shift("lshr"),
    arith.ShRSIOp: _shift("ashr"),
    arith.MaxSIOp: _intrinsic("smax"),
    arith.MinSIOp: _intrinsic("smin"),
    arith.MaxUIOp: _intrinsic("umax"),
    arith.MinUIOp: _intrinsic("umin"),
    arith.DivSIOp: _division(divide.signed_quotient),
    arith.DivUIOp: _division(divide.unsigned_quotient),
    arith.RemSIOp: _division(divide.signed_remainder),
    arith.RemUIOp: _division(divide.unsigned_remainder),
    arith.CmpiOp: _cmpi,
    arith.CmpfOp: _cmpf,
    arith.SelectOp: _select,
    arith.BitcastOp: _bitcast,
    tile.CompareOp: _compare,
    tile.SelectOp: _select,
}
