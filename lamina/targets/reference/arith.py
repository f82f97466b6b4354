"""What `arith` computes: integers wrap, division by zero gives 0, NaN propagates.

A shift by the width of its type or more gives 0, for all three shifts, and so does a remainder
of a division by zero. Overflow and fast-math flags change nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import Operation

from lamina.targets.reference import numerics
from lamina.targets.reference.dtypes import constant, dtype_of, unsigned
from lamina.targets.reference.interpreter import Interpreter, Meaning

Binary = Callable[[Any, Any], Any]


def _binary(function: Binary) -> Meaning:
    return lambda run, op, args: (function(args[0], args[1]),)


def _signless(function: Binary) -> Meaning:
    """The meaning of an integer operation; on i1 it is done in i8, and the low bit is kept."""

    def meaning(run: Interpreter, op: Any, args: tuple[Any, ...]) -> tuple[Any]:
        a, b = args
        if a.dtype != np.bool_:
            return (function(a, b),)
        return ((function(a.view(np.int8), b.view(np.int8)) & np.int8(1)).astype(np.bool_),)

    return meaning


def _unsigned(function: Binary) -> Binary:
    return lambda a, b: function(unsigned(a), unsigned(b)).astype(a.dtype)


def _shift(function: Binary) -> Meaning:
    def meaning(run: Interpreter, op: Any, args: tuple[Any, ...]) -> tuple[Any]:
        a, b = args
        inside = unsigned(b) < 8 * a.dtype.itemsize
        shifted = function(a, numerics.choose(inside, b, b.dtype.type(0)))
        return (numerics.choose(inside, shifted, a.dtype.type(0)),)

    return meaning


def _shift_right(a: Any, b: Any) -> Any:
    return np.right_shift(unsigned(a), unsigned(b)).astype(a.dtype)


def _constant(run: Interpreter, op: Any, args: tuple[Any, ...]) -> tuple[Any]:
    return (run.fact(op, _read_constant),)


def _read_constant(op: arith.ConstantOp) -> Any:
    return constant(op.value, op.result.type)


_INTEGER_TESTS: tuple[Binary, ...] = (
    np.equal,
    np.not_equal,
    np.less,
    np.less_equal,
    np.greater,
    np.greater_equal,
    lambda a, b: unsigned(a) < unsigned(b),
    lambda a, b: unsigned(a) <= unsigned(b),
    lambda a, b: unsigned(a) > unsigned(b),
    lambda a, b: unsigned(a) >= unsigned(b),
)
"""By the predicate of `arith.cmpi`."""


def _unordered(a: Any, b: Any) -> Any:
    return np.isnan(a) | np.isnan(b)


_FLOAT_TESTS: tuple[Binary, ...] = (
    lambda a, b: np.not_equal(a, a) & False,
    np.equal,
    np.greater,
    np.greater_equal,
    np.less,
    np.less_equal,
    lambda a, b: (a < b) | (a > b),
    lambda a, b: ~_unordered(a, b),
    lambda a, b: (a == b) | _unordered(a, b),
    lambda a, b: ~(a <= b),
    lambda a, b: ~(a < b),
    lambda a, b: ~(a >= b),
    lambda a, b: ~(a > b),
    np.not_equal,
    _unordered,
    lambda a, b: np.equal(a, a) | True,
)
"""By the predicate of `arith.cmpf`."""


def _cmpi(run: Interpreter, op: Any, args: tuple[Any, ...]) -> tuple[Any]:
    return (_INTEGER_TESTS[run.fact(op, _read_predicate)](*args),)


def _cmpf(run: Interpreter, op: Any, args: tuple[Any, ...]) -> tuple[Any]:
    return (_FLOAT_TESTS[run.fact(op, _read_predicate)](*args),)


def _read_predicate(op: arith.CmpiOp | arith.CmpfOp) -> int:
    return op.predicate.value.data


def _select(run: Interpreter, op: Any, args: tuple[Any, ...]) -> tuple[Any]:
    condition, a, b = args
    return (
        (a if condition else b,) if np.ndim(condition) == 0 else (numerics.choose(condition, a, b),)
    )


def _cast(*, no_sign: bool = False) -> Meaning:
    def meaning(run: Interpreter, op: Any, args: tuple[Any, ...]) -> tuple[Any]:
        return (numerics.cast(args[0], dtype_of(op.results[0].type), no_sign=no_sign),)

    return meaning


def _extend_signed(run: Interpreter, op: Any, args: tuple[Any, ...]) -> tuple[Any]:
    (x,) = args
    wide = numerics.cast(x, dtype_of(op.results[0].type))
    return (-wide,) if x.dtype == np.bool_ else (wide,)


def _bitcast(run: Interpreter, op: Any, args: tuple[Any, ...]) -> tuple[Any]:
    return (np.asarray(args[0], order="C").view(dtype_of(op.results[0].type))[()],)


def _ceildiv(a: Any, b: Any) -> Any:
    quotient = numerics.divide(a, b)
    above = (quotient * b != a) & (b != 0) & ((a < 0) == (b < 0))
    return (quotient + above).astype(a.dtype)


def _ceildiv_unsigned(a: Any, b: Any) -> Any:
    quotient = a // b
    return (quotient + ((quotient * b != a) & (b != 0))).astype(a.dtype)


MEANINGS: dict[type[Operation], Meaning] = {
    arith.ConstantOp: _constant,
    arith.AddiOp: _signless(np.add),
    arith.SubiOp: _signless(np.subtract),
    arith.MuliOp: _signless(np.multiply),
    arith.DivSIOp: _binary(numerics.divide),
    arith.DivUIOp: _binary(_unsigned(np.floor_divide)),
    arith.RemSIOp: _binary(numerics.remainder),
    arith.RemUIOp: _binary(_unsigned(np.remainder)),
    arith.FloorDivSIOp: _binary(np.floor_divide),
    arith.CeilDivSIOp: _binary(_ceildiv),
    arith.CeilDivUIOp: _binary(_unsigned(_ceildiv_unsigned)),
    arith.MinSIOp: _binary(np.minimum),
    arith.MaxSIOp: _binary(np.maximum),
    arith.MinUIOp: _binary(_unsigned(np.minimum)),
    arith.MaxUIOp: _binary(_unsigned(np.maximum)),
    arith.AndIOp: _binary(np.bitwise_and),
    arith.OrIOp: _binary(np.bitwise_or),
    arith.XOrIOp: _binary(np.bitwise_xor),
    arith.ShLIOp: _shift(np.left_shift),
    arith.ShRUIOp: _shift(_shift_right),
    arith.ShRSIOp: _shift(np.right_shift),
    arith.CmpiOp: _cmpi,
    arith.CmpfOp: _cmpf,
    arith.SelectOp: _select,
    arith.AddfOp: _binary(np.add),
    arith.SubfOp: _binary(np.subtract),
    arith.MulfOp: _binary(np.multiply),
    arith.DivfOp: _binary(np.divide),
    arith.NegfOp: lambda run, op, args: (np.negative(args[0]),),
    arith.MaximumfOp: _binary(numerics.maximum),
    arith.MinimumfOp: _binary(numerics.minimum),
    arith.MaxnumfOp: _binary(np.fmax),
    arith.MinnumfOp: _binary(np.fmin),
    arith.BitcastOp: _bitcast,
    arith.IndexCastOp: _extend_signed,
    arith.ExtSIOp: _extend_signed,
    arith.ExtUIOp: _cast(no_sign=True),
    arith.TruncIOp: _cast(),
    arith.FPToSIOp: _cast(),
    arith.FPToUIOp: _cast(no_sign=True),
    arith.SIToFPOp: _cast(),
    arith.UIToFPOp: _cast(no_sign=True),
    arith.ExtFOp: _cast(),
    arith.TruncFOp: _cast(),
}
