"""What `math` computes: functions of floats in float64, rounded once to the result's type."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects import math as ops
from xdsl.ir import Operation

from lamina.targets.reference import numerics
from lamina.targets.reference.dtypes import unsigned
from lamina.targets.reference.interpreter import Interpreter, Meaning

_ERF = np.frompyfunc(math.erf, 1, 1)


def erf(x: Any) -> Any:
    """Return the error function of float64 values."""
    return np.asarray(_ERF(x)).astype(np.float64)[()]


def rounded(function: Callable[..., Any]) -> Meaning:
    """Return the meaning of an operation that computes `function` of float64 and rounds once."""

    def meaning(run: Interpreter, op: Any, args: tuple[Any, ...]) -> tuple[Any]:
        exact = function(*(x.astype(np.float64) for x in args))
        return (numerics.narrow(exact, args[0].dtype),)

    return meaning


def _rsqrt(x: Any) -> Any:
    return 1.0 / np.sqrt(x)


def _count_leading(x: Any) -> Any:
    width = 8 * x.dtype.itemsize
    return sum((unsigned(x) < (1 << bit)).astype(x.dtype) for bit in range(width))


def _count_trailing(x: Any) -> Any:
    low = np.bitwise_count(unsigned((x & -x) - x.dtype.type(1)))
    return low.astype(x.dtype)


def _round_away(x: Any) -> Any:
    whole = np.trunc(x)
    return numerics.choose(np.abs(x - whole) >= 0.5, whole + np.copysign(1.0, x), whole)


MEANINGS: dict[type[Operation], Meaning] = {
    ops.AbsFOp: lambda run, op, args: (np.abs(args[0]),),
    ops.AbsIOp: lambda run, op, args: (np.abs(args[0]),),
    ops.FmaOp: lambda run, op, args: (numerics.fma(*args),),
    ops.CopySignOp: lambda run, op, args: (np.copysign(*args),),
    ops.CountLeadingZerosOp: lambda run, op, args: (_count_leading(args[0]),),
    ops.CountTrailingZerosOp: lambda run, op, args: (_count_trailing(args[0]),),
    ops.CtPopOp: lambda run, op, args: (np.bitwise_count(unsigned(args[0])).astype(args[0].dtype),),
    ops.SqrtOp: rounded(np.sqrt),
    ops.RsqrtOp: rounded(_rsqrt),
    ops.CbrtOp: rounded(np.cbrt),
    ops.ExpOp: rounded(np.exp),
    ops.Exp2Op: rounded(np.exp2),
    ops.ExpM1Op: rounded(np.expm1),
    ops.LogOp: rounded(np.log),
    ops.Log2Op: rounded(np.log2),
    ops.Log10Op: rounded(np.log10),
    ops.Log1pOp: rounded(np.log1p),
    ops.PowFOp: rounded(np.power),
    ops.FPowIOp: rounded(np.power),
    ops.ErfOp: rounded(erf),
    ops.SinOp: rounded(np.sin),
    ops.CosOp: rounded(np.cos),
    ops.TanOp: rounded(np.tan),
    ops.AsinOp: rounded(np.arcsin),
    ops.AcosOp: rounded(np.arccos),
    ops.AtanOp: rounded(np.arctan),
    ops.Atan2Op: rounded(np.arctan2),
    ops.SinhOp: rounded(np.sinh),
    ops.CoshOp: rounded(np.cosh),
    ops.TanhOp: rounded(np.tanh),
    ops.AsinhOp: rounded(np.arcsinh),
    ops.AcoshOp: rounded(np.arccosh),
    ops.AtanhOp: rounded(np.arctanh),
    ops.FloorOp: rounded(np.floor),
    ops.CeilOp: rounded(np.ceil),
    ops.TruncOp: rounded(np.trunc),
    ops.RoundEvenOp: rounded(np.rint),
    ops.RoundOp: rounded(_round_away),
}
