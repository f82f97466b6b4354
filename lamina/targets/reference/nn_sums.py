"""What the operations of `nn` compute that sum, order or slide a window over elements.

Floats narrower than float64 are summed by BLAS in float32, or in float64 and rounded once.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
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
        return (_FOLDS[kind].reduce(x, dims, initial=_neutral(kind, x.dtype)),)
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


def _neutral(kind: str, dtype: np.dtype[Any]) -> Any:
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
    return _neutral(kind, dtype) if kind in ("max", "min") else dtype.type(kind == "mul")


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
    a, b = (_wide(x) for x in args)
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


def _wide(x: Array) -> Array:
    """Return `x` in a type that BLAS knows and that holds its products exactly."""
    if is_float(x.dtype):
        return x if x.dtype == numerics.F64 else x.astype(np.float32, copy=False)
    return x.astype(np.float64 if x.dtype.itemsize == 1 else np.int64)


def _windows(
    x: Array, window: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...]
) -> Iterator[tuple[tuple[int, ...], Array]]:
    """Yield each offset in the window and the view of `x[N, spatial…, C]` that it meets."""
    sizes = [
        (n - (w - 1) * d - 1) // s + 1
        for n, w, s, d in zip(x.shape[1:-1], window, strides, dilations, strict=True)
    ]
    for offset in product(*(range(w) for w in window)):
        bounds = zip(offset, dilations, sizes, strides, strict=True)
        yield offset, x[:, *(slice(o * d, o * d + (n - 1) * s + 1, s) for o, d, n, s in bounds)]


def _padded(x: Array, pads: tuple[int, ...], value: Any) -> Array:
    widths = [(0, 0), *zip(pads[0::2], pads[1::2], strict=True), (0, 0)]
    return np.pad(x, widths, constant_values=value)


def _conv(run: Interpreter, op: nn.ConvOp, args: Args) -> tuple[Any]:
    x, w = (_wide(each) for each in args)
    groups, shape = op.groups.value.data, run.shape(op.y.type)
    x = _padded(x, tile.values(op.pads), x.dtype.type(0))
    steps = tile.values(op.strides), tile.values(op.dilations)
    weights = w.reshape(groups, -1, *w.shape[1:])
    y = np.zeros((*shape[:-1], groups, weights.shape[1]), x.dtype)
    for offset, view in _windows(x, w.shape[1:-1], *steps):
        pixels = view.reshape(*view.shape[:-1], groups, x.shape[-1] // groups)
        y += np.einsum("...gc,goc->...go", pixels, weights[:, :, *offset], optimize=True)
    return (y.reshape(shape).astype(dtype_of(op.y.type)),)


def _pool(run: Interpreter, op: nn.PoolOp, args: Args) -> tuple[Any]:
    (x,), pads, window = args, tile.values(op.pads), tile.values(op.window)
    steps = tile.values(op.strides), (1,) * len(window)
    if op.kind.data == "max":
        y = np.full(run.shape(op.y.type), _neutral("max", x.dtype))
        for _, view in _windows(_padded(x, pads, _neutral("max", x.dtype)), window, *steps):
            y = np.maximum(y, view)
        return (y,)
    total = np.zeros(run.shape(op.y.type))
    for _, view in _windows(_padded(x.astype(np.float64), pads, 0.0), window, *steps):
        total += view
    count = np.full(total.shape, float(prod(window)))
    if op.include_pad is None:
        inside = _padded(np.ones_like(x, np.float64), pads, 0.0)
        count = np.sum([view for _, view in _windows(inside, window, *steps)], axis=0)
    return (numerics.narrow(total / count, x.dtype),)


MEANINGS: dict[type[Operation], Meaning] = {
    nn.ReduceOp: _reduce,
    nn.ScanOp: _scan,
    nn.SortOp: _sort,
    nn.DotGeneralOp: _dot_general,
    nn.ConvOp: _conv,
    nn.PoolOp: _pool,
}
