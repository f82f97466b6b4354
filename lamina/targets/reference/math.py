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


def _float(function: Callable[..., Any]) -> Meaning:
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
    ops.SqrtOp: _float(np.sqrt),
    ops.RsqrtOp: _float(_rsqrt),
    ops.CbrtOp: _float(np.cbrt),
    ops.ExpOp: _float(np.exp),
    ops.Exp2Op: _float(np.exp2),
    ops.ExpM1Op: _float(np.expm1),
    ops.LogOp: _float(np.log),
    ops.Log2Op: _float(np.log2),
    ops.Log10Op: _float(np.log10),
    ops.Log1pOp: _float(np.log1p),
    ops.PowFOp: _float(np.power),
    ops.FPowIOp: _float(np.power),
    ops.ErfOp: _float(erf),
    ops.SinOp: _float(np.sin),
    ops.CosOp: _float(np.cos),
    ops.TanOp: _float(np.tan),
    ops.AsinOp: _float(np.arcsin),
    ops.AcosOp: _float(np.arccos),
    ops.AtanOp: _float(np.arctan),
    ops.Atan2Op: _float(np.arctan2),
    ops.SinhOp: _float(np.sinh),
    ops.CoshOp: _float(np.cosh),
    ops.TanhOp: _float(np.tanh),
    ops.AsinhOp: _float(np.arcsinh),
    ops.AcoshOp: _float(np.arccosh),
    ops.AtanhOp: _float(np.arctanh),
    ops.FloorOp: _float(np.floor),
    ops.CeilOp: _float(np.ceil),
    ops.TruncOp: _float(np.trunc),
    ops.RoundEvenOp: _float(np.rint),
    ops.RoundOp: _float(_round_away),
}
