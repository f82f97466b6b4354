"""The functions of the gates of recurrent networks, on tiles of f32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from lamina.dialects import tile
from lamina.passes.formulas import activations, exponentials
from lamina.passes.formulas.constants import Constants
from lamina.passes.formulas.formula import Formula
from lamina.passes.kernels.emit import Emit


def applied(emit: Emit, name: str, parameters: tuple[float, ...], x: SSAValue) -> SSAValue:
    """Return an activation of `nn_recurrent.ACTIVATIONS` of a tile of f32."""
    alpha, beta, *_ = (*parameters, 0.0, 0.0)
    return _FUNCTIONS[name](_Gate(emit, tile.shape_of(x.type)), x, alpha, beta)


class _Gate(Formula):
    """A formula that may also call functions, which become formulas later."""

    def __init__(self, emit: Emit, shape: tuple[int, ...]) -> None:
        super().__init__(emit.add, Constants(emit.entry), shape)
        self._emit, self._shape = emit, shape

    def number(self, value: float) -> SSAValue:
        """Return one number in every element."""
        return self._emit.full(value, f32, self._shape)

    def below(self, x: SSAValue, bound: float, a: SSAValue, b: SSAValue) -> SSAValue:
        """Return `x < bound ? a : b`."""
        mask = self._emit.add(tile.CompareOp("lt", x, self.number(bound)))
        return self._emit.add(tile.SelectOp(mask, a, b))

    def larger(self, a: SSAValue, value: float) -> SSAValue:
        """Return the larger of `a` and a number; NaN stays."""
        return self._emit.binary(arith.MaximumfOp, a, self.number(value))

    def smaller(self, a: SSAValue, value: float) -> SSAValue:
        """Return the smaller of `a` and a number; NaN stays."""
        return self._emit.binary(arith.MinimumfOp, a, self.number(value))

    def tanh(self, x: SSAValue) -> SSAValue:
        """Return the hyperbolic tangent."""
        return self.insert(math.TanhOp(x))

    def exp(self, x: SSAValue) -> SSAValue:
        """Return e^x."""
        return self.insert(math.ExpOp(x))


def _elu(f: _Gate, x: SSAValue, alpha: float) -> SSAValue:
    below = f.mul(f.sub(f.exp(f.smaller(x, 0)), f.number(1)), f.number(alpha))
    return f.below(x, 0, below, x)


def _softsign(f: _Gate, x: SSAValue) -> SSAValue:
    return f.div(x, f.add(f.insert(math.AbsFOp(x)), f.number(1)))


def _above(f: _Gate, x: SSAValue, alpha: float) -> SSAValue:
    mask = f.insert(tile.CompareOp("gt", x, f.number(alpha)))
    return f.insert(tile.SelectOp(mask, x, f.number(0)))


def _line(f: _Gate, x: SSAValue, a: float, b: float) -> SSAValue:
    return f.add(f.mul(x, f.number(a)), f.number(b))


Function = Callable[[_Gate, SSAValue, float, float], SSAValue]

_FUNCTIONS: Final[dict[str, Function]] = {
    "affine": _line,
    "elu": lambda f, x, a, _: _elu(f, x, a),
    "hard_sigmoid": lambda f, x, a, b: f.smaller(f.larger(_line(f, x, a, b), 0), 1),
    "leaky_relu": lambda f, x, a, _: f.below(x, 0, f.mul(x, f.number(a)), x),
    "relu": lambda f, x, a, b: f.larger(x, 0),
    "scaled_tanh": lambda f, x, a, b: f.mul(f.tanh(f.mul(x, f.number(b))), f.number(a)),
    "sigmoid": lambda f, x, a, b: exponentials.sigmoid(f, x),
    "softplus": lambda f, x, a, b: activations.softplus(f, x),
    "softsign": lambda f, x, a, b: _softsign(f, x),
    "tanh": lambda f, x, a, b: f.tanh(x),
    "thresholded_relu": lambda f, x, a, _: _above(f, x, a),
}
