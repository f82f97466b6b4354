"""The functions of `math` that machines have: the rest are polynomials before this point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from xdsl.dialects import math
from xdsl.ir import Operation

from lamina.targets.cpu.elements import F32, F64
from lamina.targets.cpu.emitter import Emitter, Rule
from lamina.targets.cpu.lanes import Lanes
from lamina.targets.cpu.rules_arith import elementwise, in_single

Function = Callable[[Lanes, str], str]


def fused(lanes: Lanes, a: str, b: str, c: str, *, fma: bool) -> str:
    """Return a * b + c, rounded once where the machine has the instruction."""
    if fma:
        return lanes.call("fma", a, b, c)
    return lanes.op("fadd", lanes.op("fmul", a, b), c)


def round_even(lanes: Lanes, x: str, *, native: bool) -> str:
    """Return x rounded to an integer, ties to even, with the sign of x."""
    if native:
        return lanes.call("roundeven", x)
    magnitude = lanes.call("fabs", x)
    # Past this number every float is an integer, so adding it rounds to one.
    unit = lanes.constant(2.0 ** (23 if lanes.kind.bits == 32 else 52))
    rounded = lanes.op("fsub", lanes.op("fadd", magnitude, unit), unit)
    large = lanes.compare("uge", magnitude, unit)
    return lanes.call("copysign", lanes.select(large, magnitude, rounded), x)


def _floor(lanes: Lanes, x: str) -> str:
    near = round_even(lanes, x, native=False)
    less = lanes.op("fsub", near, lanes.constant(1.0))
    return lanes.call("copysign", lanes.select(lanes.compare("ogt", near, x), less, near), x)


def _ceil(lanes: Lanes, x: str) -> str:
    near = round_even(lanes, x, native=False)
    more = lanes.op("fadd", near, lanes.constant(1.0))
    return lanes.call("copysign", lanes.select(lanes.compare("olt", near, x), more, near), x)


def _trunc(lanes: Lanes, x: str) -> str:
    return lanes.call("copysign", _floor(lanes, lanes.call("fabs", x)), x)


def _rounding(name: str, otherwise: Function) -> Rule:
    def rule(emitter: Emitter, op: Operation) -> None:
        native = emitter.features.rounding

        def write(lanes: Lanes, xs: list[str]) -> str:
            return lanes.call(name, xs[0]) if native else otherwise(lanes, xs[0])

        elementwise(emitter, op, in_single(emitter, write))

    return rule


def _fma(emitter: Emitter, op: math.FmaOp) -> None:
    fma = emitter.features.fma

    def write(lanes: Lanes, xs: list[str]) -> str:
        if fma or lanes.kind is not F32:
            return fused(lanes, *xs, fma=fma)
        return _fused_in_double(lanes, xs)

    elementwise(emitter, op, in_single(emitter, write))


def _fused_in_double(lanes: Lanes, xs: list[str]) -> str:
    """Return a * b + c of f32: exact products, sums rounded to f64 and then to f32.

    The last digits of pi that a range reduction takes off are lost where a product is rounded.
    """
    doubles = lanes.to(F64)
    a, b, c = (lanes.convert("fpext", x, F64) for x in xs)
    total = doubles.op("fadd", doubles.op("fmul", a, b), c)
    return doubles.convert("fptrunc", total, F32)


def _direct(name: str) -> Rule:
    def rule(emitter: Emitter, op: Operation) -> None:
        def write(lanes: Lanes, xs: list[str]) -> str:
            return lanes.call(name, *xs)

        elementwise(emitter, op, in_single(emitter, write))

    return rule


def _absolute(emitter: Emitter, op: math.AbsIOp) -> None:
    # The least integer is its own magnitude: the last operand says that this is no poison.
    elementwise(emitter, op, lambda lanes, xs: lanes.call("abs", xs[0], extra="i1 false"))


RULES: Final[dict[type[Operation], Rule]] = {
    math.FmaOp: _fma,
    math.AbsFOp: _direct("fabs"),
    math.AbsIOp: _absolute,
    math.SqrtOp: _direct("sqrt"),
    math.CopySignOp: _direct("copysign"),
    math.FloorOp: _rounding("floor", _floor),
    math.CeilOp: _rounding("ceil", _ceil),
    math.TruncOp: _rounding("trunc", _trunc),
    math.RoundEvenOp: _rounding("roundeven", lambda lanes, x: round_even(lanes, x, native=False)),
}
