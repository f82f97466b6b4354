"""What the recurrent networks of `nn` compute, step by step, in float64.

States are rounded to their element type after every step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.ir import Operation

from lamina.dialects import nn
from lamina.targets.reference.dtypes import Array
from lamina.targets.reference.interpreter import Interpreter, Meaning

Apply = Callable[[Array], Array]
Cell = Callable[["_Layer", Array, Array, Array], tuple[Array, Array]]
"""The next states of a step: (layer, x[B, gate, H], h, c) -> (h, c)."""

Function = Callable[[Array, float, float], Array]
"""An activation of numbers, with its alpha and beta."""

_FUNCTIONS: dict[str, Function] = {
    "affine": lambda x, a, b: a * x + b,
    "elu": lambda x, a, _: np.where(x < 0, a * np.expm1(np.minimum(x, 0)), x),
    "hard_sigmoid": lambda x, a, b: np.minimum(np.maximum(a * x + b, 0), 1),
    "leaky_relu": lambda x, a, _: np.where(x < 0, a * x, x),
    "relu": lambda x, a, b: np.maximum(x, 0),
    "scaled_tanh": lambda x, a, b: a * np.tanh(b * x),
    "sigmoid": lambda x, a, b: 1 / (1 + np.exp(-x)),
    "softplus": lambda x, a, b: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
    "softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "tanh": lambda x, a, b: np.tanh(x),
    "thresholded_relu": lambda x, a, _: np.where(x > a, x, 0),
}


class _Layer:
    """The weights of a layer in float64, and its functions."""

    def __init__(self, op: nn.RecurrentOp, args: tuple[Array, ...]) -> None:
        self.op, names = op, [role.data for role in op.roles]
        self._named = dict(zip(names, args, strict=True))
        self.r = self.wide("r")
        self.functions = [self._function(n) for n in range(len(op.activations))]

    def get(self, role: str) -> Array | None:
        """Return an operand as it is."""
        return self._named.get(role)

    def wide(self, role: str) -> Array:
        """Return an operand in float64; 0 where there is none."""
        found = self._named.get(role)
        return np.zeros(()) if found is None else found.astype(np.float64)

    def products(self, h: Array) -> Array:
        """Return what a state gives to each gate, [B, gate, H]."""
        h = _levels(h) if self.op.levels is not None else h
        return np.einsum("bk,kgn->bgn", h, self.r, optimize=True)

    def _function(self, number: int) -> Apply:
        name, parameters = self.op.activations[number]
        alpha, beta, *_ = (*parameters, 0.0, 0.0)
        bound = self.op.bound(number)
        limit = np.inf if bound is None else bound
        return lambda x: _FUNCTIONS[name](np.clip(x, -limit, limit), alpha, beta)


def _levels(h: Array) -> Array:
    """Return rows as the nearest of 256 levels between their ends and 0."""
    low = np.minimum(h.min(1, keepdims=True, initial=0), 0)
    high = np.maximum(h.max(1, keepdims=True, initial=0), 0)
    scale = np.where(high > low, (high - low) / 255, 1)
    zero = np.rint(-low / scale)
    return (np.clip(np.rint(h / scale) + zero, 0, 255) - zero) * scale


def _rnn(layer: _Layer, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    (f,) = layer.functions
    return f(x[:, 0] + layer.products(h)[:, 0]), c


def _gru(layer: _Layer, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    f, g = layer.functions
    s = layer.products(h)
    z, reset = f(x[:, 0] + s[:, 0]), f(x[:, 1] + s[:, 1])
    if layer.op.linear is not None:
        n = g(x[:, 2] + reset * (s[:, 2] + layer.wide("bias")))
    else:
        n = g(x[:, 2] + (reset * h) @ layer.r[:, 2])
    return (1 - z) * n + z * h, c


def _lstm(layer: _Layer, x: Array, h: Array, c: Array) -> tuple[Array, Array]:
    f, g, last = layer.functions
    s = x + layer.products(h)
    p = layer.wide("peepholes")
    p = p if p.ndim else np.zeros((3, 1))
    i = f(s[:, 0] + p[0] * c)
    forget = 1 - i if layer.op.coupled is not None else f(s[:, 2] + p[2] * c)
    c = forget * c + i * g(s[:, 3])
    o = f(s[:, 1] + p[1] * c)
    return o * last(c), c


_CELLS: dict[str, Cell] = {"rnn": _rnn, "gru": _gru, "lstm": _lstm}


def _recurrent(run: Interpreter, op: nn.RecurrentOp, args: tuple[Any, ...]) -> tuple[Any, ...]:
    layer, x = _Layer(op, args), args[0]
    dtype, steps = x.dtype, range(len(x))
    h, c, lengths = layer.wide("h"), layer.wide("c"), layer.get("lengths")
    y = np.zeros((x.shape[0], x.shape[1], x.shape[3]), dtype)
    for t in reversed(steps) if op.reverse is not None else steps:
        new_h, new_c = _CELLS[op.cell.data](layer, x[t].astype(np.float64), h, c)
        going = np.full((x.shape[1], 1), True) if lengths is None else t < lengths[:, None]
        h = np.where(going, new_h, h).astype(dtype).astype(np.float64)
        c = np.where(going, new_c, c).astype(dtype).astype(np.float64) if c.ndim else c
        y[t] = np.where(going, h, 0)
    states = [h, c] if c.ndim else [h]
    return (y, *(state.astype(dtype) for state in states))


MEANINGS: dict[type[Operation], Meaning] = {nn.RecurrentOp: _recurrent}
