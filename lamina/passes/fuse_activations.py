"""Recognise activations that a source spells in parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isclose, pi, sqrt
from typing import Any, Final, cast

from xdsl.context import Context
from xdsl.dialects.builtin import FloatAttr, ModuleOp, bf16, f16, f32, f64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass

from lamina.dialects import nn
from lamina.passes.functions import blocks_in, find_function, operations_in
from lamina.passes.rewriting import erase_unused, replace_with

CLOSE: Final[dict[Attribute, float]] = {f64: 1e-6, f32: 1e-6, f16: 1e-3, bf16: 1e-2}
"""How far a number of a formula may be from what it is to be, as a part of it: a few roundings."""

CUBIC: Final = 0.044715


@dataclass(frozen=True)
class FuseActivationsPass(ModulePass):
    """No SiLU or GELU is spelt in parts.

    x * sigmoid(x) -> silu(x); x * (1 + erf(x / sqrt(2))) / 2 -> gelu(x), and the same of its
    approximation by tanh(sqrt(2 / pi) * (x + 0.044715 x^3)); factors in any order.
    """

    name = "fuse-activations"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        """Rewrite the module in place."""
        function = find_function(op, "forward")
        if function is None:
            return
        for each in reversed(operations_in(function)):
            if isinstance(each, nn.MulOp | nn.DivOp) and each.parent is not None:
                _fuse(each)
        for block in blocks_in(function.body.block):
            erase_unused(block)


@dataclass(frozen=True)
class _Product:
    """A number times values."""

    number: float
    values: tuple[SSAValue, ...]

    @staticmethod
    def of(value: SSAValue, most: int = 8) -> _Product:
        """Return what a value is the product of, as far as multiplications show it."""
        number = _number(value)
        if number is not None:
            return _Product(number, ())
        op = value.owner
        if isinstance(op, nn.MulOp) and most:
            a, b = (_Product.of(x, most - 1) for x in (op.a, op.b))
            return _Product(a.number * b.number, (*a.values, *b.values))
        if isinstance(op, nn.DivOp) and (divisor := _number(op.b)):
            a = _Product.of(op.a, most - 1)
            return _Product(a.number / divisor, a.values)
        return _Product(1.0, (value,))


def _fuse(op: nn.MulOp | nn.DivOp) -> None:
    """Replace a product that is an activation, times a number if it is not 1."""
    found = _Product.of(op.results[0])
    if len(found.values) != 2 or nn.element(op.results[0]) not in CLOSE:
        return
    for x, gate in (found.values, found.values[::-1]):
        for usual, form in FORMS:
            activation = form(x, gate)
            if activation is None:
                continue
            new: list[Operation] = [activation]
            if not _near(found.number, usual, x):
                kind = op.results[0].type
                factor = FloatAttr(found.number / usual, cast("Any", nn.element(x)))
                new.append(constant := nn.ConstantOp(factor, kind))
                new.append(nn.MulOp(activation.results[0], constant.y))
            replace_with(op, new, [new[-1].results[0]])
            return


def _silu(x: SSAValue, gate: SSAValue) -> Operation | None:
    """x * sigmoid(x)"""
    own = isinstance(gate.owner, nn.SigmoidOp) and gate.owner.x is x
    return nn.SiluOp(x) if own else None


def _gelu(x: SSAValue, gate: SSAValue) -> Operation | None:
    """x * (erf(x / sqrt(2)) + 1)"""
    for term in _beside(gate, 1.0):
        if not isinstance(term.owner, nn.ErfOp):
            continue
        inner = _Product.of(term.owner.x)
        if inner.values == (x,) and _near(inner.number, sqrt(0.5), x):
            return nn.GeluOp(x)
    return None


def _tanh_gelu(x: SSAValue, gate: SSAValue) -> Operation | None:
    """x * (tanh(sqrt(2 / pi) * (x + 0.044715 x^3)) + 1)"""
    for term in _beside(gate, 1.0):
        if not isinstance(term.owner, nn.TanhOp):
            continue
        inner = _Product.of(term.owner.x)
        if len(inner.values) == 1 and _near(inner.number, sqrt(2 / pi), x):
            sums = inner.values[0].owner
            if isinstance(sums, nn.AddOp) and _is_cubic(sums, x):
                return nn.GeluOp(x, approximate=True)
    return None


FORMS: Final[Sequence[tuple[float, Callable[[SSAValue, SSAValue], Operation | None]]]] = (
    (1.0, _silu),
    (0.5, _gelu),
    (0.5, _tanh_gelu),
)
"""What is recognised in two factors, and the number that they are multiplied by."""


def _is_cubic(op: nn.AddOp, x: SSAValue) -> bool:
    for a, b in ((op.a, op.b), (op.b, op.a)):
        cubic = _Product.of(b)
        if a is x and _near(cubic.number, CUBIC, x) and _is_cube(cubic.values, x):
            return True
    return False


def _is_cube(values: tuple[SSAValue, ...], x: SSAValue) -> bool:
    if values == (x, x, x):
        return True
    if len(values) != 1 or not isinstance(values[0].owner, nn.PowOp):
        return False
    power = values[0].owner
    return power.a is x and _number(power.b) == 3


def _beside(value: SSAValue, number: float) -> Iterator[SSAValue]:
    """Yield what a number is added to in a value."""
    if isinstance(value.owner, nn.AddOp):
        for a, b in ((value.owner.a, value.owner.b), (value.owner.b, value.owner.a)):
            if _number(b) == number:
                yield a


def _number(value: SSAValue) -> float | None:
    """Return the one number that a value has everywhere, if that is known."""
    op = value.owner
    while isinstance(op, nn.BroadcastOp | nn.ReshapeOp):
        op = op.x.owner
    if isinstance(op, nn.ConstantOp) and isinstance(op.value, FloatAttr):
        return cast("FloatAttr[Any]", op.value).value.data
    return None


def _near(number: float, expected: float, x: SSAValue) -> bool:
    return isclose(number, expected, rel_tol=CLOSE[nn.element(x)])
