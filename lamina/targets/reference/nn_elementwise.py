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
from lamina.targets.reference.dtypes import constant, dtype_of, is_float, unsigned
from lamina.targets.reference.interpreter import Interpreter, Meaning

Args = tuple[Any, ...]


def _either(floats: Callable[..., Any], integers: Callable[..., Any]) -> Meaning:
    """The meaning of an operation that floats and integers have their own functions for."""

    def meaning(run: Interpreter, op: Any, args: Args) -> tuple[Any]:
        return ((floats if is_float(args[0].dtype) else integers)(*args),)

    return meaning


def _power(a: Any, b: Any) -> Any:
    return numerics.narrow(np.power(a.astype(np.float64), b.astype(np.float64)), a.dtype)


def _whole_power(a: Any, b: Any) -> Any:
    """Return the product of `b` times `a`, which wraps; below 0 the whole part of its inverse."""
    one, left = a.dtype.type(1), unsigned(b)
    power, base = np.ones_like(a), a
    for bit in range(8 * a.dtype.itemsize):
        odd = left >> left.dtype.type(bit) & left.dtype.type(1)
        power = numerics.choose(odd == 1, power * base, power)
        base = base * base
    return numerics.choose((b < 0) & (np.abs(a) != one), a.dtype.type(0), power)


def _mod(run: Interpreter, op: nn.ModOp, args: Args) -> tuple[Any]:
    a, b = args
    rest = (np.fmod if is_float(a.dtype) else numerics.remainder)(a, b)
    if op.floor is None:
        return (rest,)
    whole = numerics.choose((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)
    return (np.copysign(whole, b) if is_float(a.dtype) else whole,)


def _sign(x: Any) -> Any:
    zero, one = x.dtype.type(0), x.dtype.type(1)
    y = numerics.choose(x == 0, zero, numerics.choose(x > 0, one, x))
    return y if x.dtype.kind == "u" else numerics.choose(x < 0, -one, y)


def _softplus(x: Any) -> Any:
    return np.logaddexp(x, 0.0)


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
    nn.TanOp: math.MEANINGS[math_ops.TanOp],
    nn.AsinOp: math.MEANINGS[math_ops.AsinOp],
    nn.AcosOp: math.MEANINGS[math_ops.AcosOp],
    nn.AtanOp: math.MEANINGS[math_ops.AtanOp],
    nn.SinhOp: math.MEANINGS[math_ops.SinhOp],
    nn.CoshOp: math.MEANINGS[math_ops.CoshOp],
    nn.AsinhOp: math.MEANINGS[math_ops.AsinhOp],
    nn.AcoshOp: math.MEANINGS[math_ops.AcoshOp],
    nn.AtanhOp: math.MEANINGS[math_ops.AtanhOp],
    nn.SignOp: lambda run, op, args: (_sign(args[0]),),
    nn.SoftplusOp: math.rounded(_softplus),
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
    nn.ModOp: _mod,
    nn.PowOp: _either(_power, _whole_power),
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
