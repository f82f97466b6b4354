"""What the elementwise operations of `nn` compute, and constants.

Functions of floats are computed in float64 and rounded once to the result's type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects import arith as arith_ops
from xdsl.dialects import math as math_ops
from xdsl.ir import Operation

from lamina.dialects import nn
from lamina.targets.reference import arith, math, numerics
from lamina.targets.reference.comparisons import COMPARISONS
from lamina.targets.reference.dtypes import constant, dtype_of, is_float
from lamina.targets.reference.interpreter import Interpreter, Meaning

Args = tuple[Any, ...]


def _either(floats: Callable[..., Any], integers: Callable[..., Any]) -> Meaning:
    """The meaning of an operation that floats and integers have their own functions for."""

    def meaning(run: Interpreter, op: Any, args: Args) -> tuple[Any]:
        return ((floats if is_float(args[0].dtype) else integers)(*args),)

    return meaning


def _power(a: Any, b: Any) -> Any:
    power = np.power(a.astype(np.float64), b.astype(np.float64))
    if is_float(a.dtype):
        return numerics.narrow(power, a.dtype)
    return numerics.cast(np.trunc(power), a.dtype)


def _cast(run: Interpreter, op: Any, args: Args) -> tuple[Any]:
    dtype = run.fact(op, _read_dtype)
    (x,) = args
    if is_float(x.dtype) and not is_float(dtype):
        x = np.trunc(x.astype(np.float64))
    return (x if x.dtype == dtype else numerics.cast(x, dtype),)


def _read_dtype(op: nn.CastOp) -> np.dtype[Any]:
    return dtype_of(op.y.type)


def _compare(run: Interpreter, op: nn.CompareOp, args: Args) -> tuple[Any]:
    return (COMPARISONS[op.kind.data](*args),)


def _select(run: Interpreter, op: Any, args: Args) -> tuple[Any]:
    return (numerics.choose(*args),)


def _constant(run: Interpreter, op: nn.ConstantOp, args: Args) -> tuple[Any]:
    return (np.broadcast_to(run.fact(op, _read_constant), run.shape(op.y.type)),)


def _read_constant(op: nn.ConstantOp) -> Any:
    return constant(op.value, op.y.type)


def _relu(x: Any) -> Any:
    return numerics.maximum(x, x.dtype.type(0))


def _positive(x: Any) -> Any:
    return np.maximum(x, x.dtype.type(0))


def _sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


def _silu(x: Any) -> Any:
    return x * _sigmoid(x)


def _gelu(run: Interpreter, op: nn.GeluOp, args: Args) -> tuple[Any]:
    x = args[0].astype(np.float64)
    if op.approximate is None:
        y = x * (1.0 + math.erf(x / np.sqrt(2.0))) / 2.0
    else:
        y = x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3))) / 2.0
    return (numerics.narrow(y, args[0].dtype),)


MEANINGS: dict[type[Operation], Meaning] = {
    nn.NegOp: lambda run, op, args: (np.negative(args[0]),),
    nn.AbsOp: lambda run, op, args: (np.abs(args[0]),),
    nn.ExpOp: math.MEANINGS[math_ops.ExpOp],
    nn.LogOp: math.MEANINGS[math_ops.LogOp],
    nn.SqrtOp: math.MEANINGS[math_ops.SqrtOp],
    nn.RsqrtOp: math.MEANINGS[math_ops.RsqrtOp],
    nn.TanhOp: math.MEANINGS[math_ops.TanhOp],
    nn.ErfOp: math.MEANINGS[math_ops.ErfOp],
    nn.SinOp: math.MEANINGS[math_ops.SinOp],
    nn.CosOp: math.MEANINGS[math_ops.CosOp],
    nn.FloorOp: math.MEANINGS[math_ops.FloorOp],
    nn.CeilOp: math.MEANINGS[math_ops.CeilOp],
    nn.RoundOp: math.MEANINGS[math_ops.RoundEvenOp],
    nn.ReluOp: _either(_relu, _positive),
    nn.SigmoidOp: math.rounded(_sigmoid),
    nn.SiluOp: math.rounded(_silu),
    nn.GeluOp: _gelu,
    nn.AddOp: arith.MEANINGS[arith_ops.AddiOp],
    nn.SubOp: arith.MEANINGS[arith_ops.SubiOp],
    nn.MulOp: arith.MEANINGS[arith_ops.MuliOp],
    nn.DivOp: _either(np.divide, numerics.divide),
    nn.ModOp: _either(np.fmod, numerics.remainder),
    nn.PowOp: _either(_power, _power),
    nn.MaxOp: _either(numerics.maximum, np.maximum),
    nn.MinOp: _either(numerics.minimum, np.minimum),
    nn.AndOp: arith.MEANINGS[arith_ops.AndIOp],
    nn.OrOp: arith.MEANINGS[arith_ops.OrIOp],
    nn.XorOp: arith.MEANINGS[arith_ops.XOrIOp],
    nn.ShlOp: arith.MEANINGS[arith_ops.ShLIOp],
    nn.ShrOp: arith.MEANINGS[arith_ops.ShRUIOp],
    nn.CompareOp: _compare,
    nn.SelectOp: _select,
    nn.CastOp: _cast,
    nn.ConstantOp: _constant,
}
