"""What the operations of `nn` compute that sum or order elements.

Floats narrower than float64 are summed by BLAS in float32, or in float64 and rounded once.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from xdsl.ir import Operation

from lamina.dialects import nn, tile
from lamina.targets.reference import numerics
from lamina.targets.reference.dtypes import Array, dtype_of, is_float
from lamina.targets.reference.interpreter import Interpreter, Meaning

Args = tuple[Any, ...]

_FOLDS: dict[str, np.ufunc] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}


def _reduce(run: Interpreter, op: nn.ReduceOp, args: Args) -> tuple[Any]:
    kind, dims, (x,) = op.kind.data, tile.values(op.dims), args
    if kind.startswith("arg"):
        return (_arg(kind, x, dims),)
    if kind in ("max", "min"):
        return (_FOLDS[kind].reduce(x, dims, initial=neutral(kind, x.dtype)),)
    if is_float(x.dtype):
        wide = _FOLDS[kind].reduce(x, dims, dtype=np.float64)
        return (numerics.narrow(np.asarray(wide), x.dtype),)
    return (np.asarray(_FOLDS[kind].reduce(x, dims, dtype=x.dtype)),)


def _arg(kind: str, x: Array, dims: tuple[int, ...]) -> Array:
    kept = [d for d in range(x.ndim) if d not in dims]
    shape = [x.shape[d] for d in kept] + [prod(x.shape[d] for d in dims)]
    rows = x.transpose([*kept, *dims]).reshape(shape)
    rows = rows.astype(np.float32) if x.dtype == numerics.BF16 else rows
    if not shape[-1]:
        return np.zeros(shape[:-1], np.int32)
    return (np.argmax if kind == "argmax" else np.argmin)(rows, -1).astype(np.int32)


def neutral(kind: str, dtype: np.dtype[Any]) -> Any:
    """Return the value that leaves a reduction of `kind` as it is."""
    if is_float(dtype):
        return dtype.type(-np.inf if kind == "max" else np.inf)
    if dtype == np.bool_:
        return kind == "min"
    limits = np.iinfo(dtype)
    return dtype.type(limits.min if kind == "max" else limits.max)


def _scan(run: Interpreter, op: nn.ScanOp, args: Args) -> tuple[Any]:
    kind, dim, (x,) = op.kind.data, op.dim.value.data, args
    x = np.flip(x, dim) if op.reverse is not None else x
    y = _FOLDS[kind].accumulate(x, dim, dtype=x.dtype)
    if op.exclusive is not None and x.shape[dim]:
        first = np.full_like(np.take(y, [0], dim), _unit(kind, x.dtype))
        y = np.concatenate([first, np.take(y, range(x.shape[dim] - 1), dim)], dim)
    return (np.flip(y, dim) if op.reverse is not None else y,)


def _unit(kind: str, dtype: np.dtype[Any]) -> Any:
    """Return what leaves an operation of `kind` as it is."""
    return neutral(kind, dtype) if kind in ("max", "min") else dtype.type(kind == "mul")


def _sort(run: Interpreter, op: nn.SortOp, args: Args) -> tuple[Any, Any]:
    (x,), dim = args, op.dim.value.data
    key = x.astype(np.float32) if x.dtype == numerics.BF16 else x
    if op.descending is not None:
        key = -key if is_float(key.dtype) else ~key
    position = np.argsort(key, axis=dim, kind="stable")
    if op.kept is not None:
        position = np.take(position, range(op.kept.evaluate(run.extents)), dim)
    return np.take_along_axis(x, position, dim), position.astype(np.int32)


def _dot_general(run: Interpreter, op: nn.DotGeneralOp, args: Args) -> tuple[Any]:
    a, b = (wide(x) for x in args)
    contract, batch = tile.pairs(op.contract), tile.pairs(op.batch)
    used = (*batch, *contract)
    left = [d for d in range(a.ndim) if d not in {i for i, _ in used}]
    right = [d for d in range(b.ndim) if d not in {j for _, j in used}]
    stays = [a.shape[i] for i, _ in batch]
    depth = prod(a.shape[i] for i, _ in contract)
    a = a.transpose([i for i, _ in batch] + left + [i for i, _ in contract])
    b = b.transpose([j for _, j in batch] + right + [j for _, j in contract])
    m, n = prod(a.shape[len(stays) :][: len(left)]), prod(b.shape[len(stays) :][: len(right)])
    rows, columns = a.reshape(prod(stays), m, depth), b.reshape(prod(stays), n, depth)
    y = np.matmul(rows, columns.swapaxes(1, 2)).reshape(run.shape(op.y.type))
    dtype = dtype_of(op.y.type)
    return (y.astype(np.int64).astype(dtype) if dtype.kind in "iu" else y.astype(dtype),)


def wide(x: Array) -> Array:
    """Return `x` in a type that BLAS knows and that holds its products exactly."""
    if is_float(x.dtype):
        return x if x.dtype == numerics.F64 else x.astype(np.float32, copy=False)
    return x.astype(np.float64 if x.dtype.itemsize == 1 else np.int64)


MEANINGS: dict[type[Operation], Meaning] = {
    nn.ReduceOp: _reduce,
    nn.ScanOp: _scan,
    nn.SortOp: _sort,
    nn.DotGeneralOp: _dot_general,
}
