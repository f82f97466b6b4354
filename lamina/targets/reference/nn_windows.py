"""What the operations of `nn` compute that slide a window over spatial dimensions.

Floats are summed in float64 and rounded once, products of convolutions in float32 (float64 for
float64); integers wrap.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import product
from math import prod
from typing import Any

import numpy as np
from xdsl.ir import Operation

from lamina.dialects import nn, tile
from lamina.errors import InputError
from lamina.targets.reference import numerics
from lamina.targets.reference.dtypes import Array, dtype_of, is_float
from lamina.targets.reference.interpreter import Interpreter, Meaning
from lamina.targets.reference.nn_sums import neutral, wide
from lamina.targets.reference.source import source_of

Args = tuple[Any, ...]
Numbers = tuple[int, ...]


def _windows(
    x: Array, window: Numbers, strides: Numbers, dilations: Numbers, counts: Numbers
) -> Iterator[tuple[Numbers, Array]]:
    """Yield each offset in the window and the view of `x[N, spatial…, C]` that it meets.

    There are `counts` windows in each dimension.
    """
    for offset in product(*(range(w) for w in window)):
        bounds = zip(offset, dilations, counts, strides, strict=True)
        yield (
            offset,
            x[:, *(slice(o * d, o * d + max(0, (n - 1) * s + 1), s) for o, d, n, s in bounds)],
        )


def _positions(run: Interpreter, op: nn.ConvOp | nn.PoolOp) -> Numbers:
    """Return the extents of a result but for its channels; `InputError` if one is below 0."""
    found = tuple(n.evaluate(run.extents) for n in op.positions)
    if any(n < 0 for n in found):
        raise InputError(f"{source_of(op)}: its input is shorter than its window")
    return found


def _padded(x: Array, pads: Numbers, value: Any) -> Array:
    widths = [(0, 0), *zip(pads[0::2], pads[1::2], strict=True), (0, 0)]
    return np.pad(x, widths, constant_values=value)


def _widened(x: Array, w: Array) -> tuple[Array, Array]:
    """Return both operands in one type that holds their products."""
    x, w = wide(x), wide(w)
    if x.dtype == w.dtype:
        return x, w
    kind = np.int64 if np.int64 in (x.dtype, w.dtype) else np.float64
    return x.astype(kind), w.astype(kind)


def _conv(run: Interpreter, op: nn.ConvOp, args: Args) -> tuple[Any]:
    x, w = _widened(*args)
    groups, counts = op.groups.value.data, _positions(run, op)
    if op.packed is not None:
        w = _unpacked(op, w, op.outputs.evaluate(run.extents))
    x = _padded(x, tile.values(op.pads), x.dtype.type(0))
    steps = tile.values(op.strides), tile.values(op.dilations)
    weights = w.reshape(groups, -1, *w.shape[1:])
    y = np.zeros((*counts, groups, weights.shape[1]), x.dtype)
    for offset, view in _windows(x, op.window, *steps, counts[1:]):
        pixels = view.reshape(*view.shape[:-1], groups, weights.shape[-1])
        y += np.einsum("...gc,goc->...go", pixels, weights[:, :, *offset], optimize=True)
    return (_as_result(y, op.y.type).reshape(run.shape(op.y.type)),)


def _unpacked(op: nn.ConvOp, w: Array, outputs: int) -> Array:
    """Return a packed weight as `[O, window…, C / groups]`."""
    groups = 1 if op.depthwise else op.groups.value.data
    rows = np.moveaxis(w, -1, 1)
    rows = rows.reshape(groups, -1, *w.shape[1:-1])[:, : outputs // groups]
    return rows.reshape(outputs, *w.shape[1:-1])


def _conv_transpose(run: Interpreter, op: nn.ConvTransposeOp, args: Args) -> tuple[Any]:
    x, w = _widened(*args)
    groups, extra, pads = op.groups.value.data, tile.values(op.extra), tile.values(op.pads)
    shape = run.shape(op.y.type)
    high = [max(0, more - pad) for pad, more in zip(pads[1::2], extra, strict=True)]
    whole = [
        low + size + more + pad
        for low, size, more, pad in zip(pads[0::2], shape[1:-1], high, pads[1::2], strict=True)
    ]
    y = np.zeros((shape[0], *whole, groups, w.shape[-1]), x.dtype)
    flat = y.reshape(*y.shape[:-2], -1)
    weights = w.reshape(groups, -1, *w.shape[1:])
    pixels = x.reshape(*x.shape[:-1], groups, -1)
    steps = tile.values(op.strides), tile.values(op.dilations)
    for offset, view in _windows(flat, op.window, *steps, x.shape[1:-1]):
        added = np.einsum("...gc,gco->...go", pixels, weights[:, :, *offset], optimize=True)
        np.add(view, added.reshape(view.shape), out=view)
    inside = zip(pads[0::2], shape[1:-1], strict=True)
    cut = flat[:, *(slice(low, low + size) for low, size in inside)]
    return (_as_result(cut, op.y.type),)


def _as_result(y: Array, type: Any) -> Array:
    """Return sums in the type of a result, rounded once or wrapped."""
    dtype = dtype_of(type)
    if is_float(dtype):
        return numerics.narrow(y, dtype) if y.dtype == numerics.F64 else y.astype(dtype)
    return y.astype(np.int64).astype(dtype)


def _pool(run: Interpreter, op: nn.PoolOp, args: Args) -> tuple[Any]:
    (x,), window = args, tile.values(op.window)
    kind, counts = op.kind.data, _positions(run, op)
    pads = _reaching(op, x.shape[1:-1], counts[1:])
    steps = window, tile.values(op.strides), op.steps, counts[1:]
    if kind in ("max", "argmax"):
        y = _largest(x, pads, steps, kind)
    else:
        y = _summed(op, x, pads, steps)
    return (y.reshape(run.shape(op.y.type)),)


def _reaching(op: nn.PoolOp, spatial: Numbers, counts: Numbers) -> Numbers:
    """Return the pads with as much more behind each dimension as the last window reaches."""
    pads: list[int] = []
    given = tile.values(op.pads)
    steps = tile.values(op.window), tile.values(op.strides), op.steps
    sizes = zip(spatial, counts, *steps, strict=True)
    for d, (extent, count, size, stride, step) in enumerate(sizes):
        low, high = given[2 * d : 2 * d + 2]
        reach = (count - 1) * stride + (size - 1) * step + 1
        pads += [low, max(high, reach - low - extent)]
    return tuple(pads)


def _largest(x: Array, pads: Numbers, steps: tuple[Numbers, ...], kind: str) -> Array:
    least = neutral("max", x.dtype)
    values = [view for _, view in _windows(_padded(x, pads, least), *steps)]
    if kind == "max":
        return reduce(numerics.maximum, values)
    spatial = x.shape[1:-1]
    numbers = np.arange(prod(spatial), dtype=np.int32).reshape(1, *spatial, 1)
    places = [view for _, view in _windows(_padded(numbers, pads, -1), *steps)]
    best, found = np.full(values[0].shape, least), np.full(values[0].shape, -1, np.int32)
    for value, place in zip(values, places, strict=True):
        first = np.isnan(value.astype(np.float64)) & ~np.isnan(best.astype(np.float64))
        better = (place >= 0) & ((found < 0) | (value > best) | first)
        best, found = np.where(better, value, best), np.where(better, place, found)
    return np.maximum(found, 0)


def _summed(op: nn.PoolOp, x: Array, pads: Numbers, steps: tuple[Numbers, ...]) -> Array:
    kind = op.kind.data
    elements = x.astype(np.float64 if is_float(x.dtype) else np.int64)
    if kind == "lp":
        assert op.p is not None
        elements = np.abs(elements) ** op.p.value.data
    total = np.sum([view for _, view in _windows(_padded(elements, pads, 0), *steps)], axis=0)
    if kind == "lp":
        assert op.p is not None
        total = total ** (1 / op.p.value.data)
    if kind == "mean":
        counted = tile.values(op.pads) if op.include_pad is not None else (0,) * len(pads)
        ones = _padded(np.ones((1, *x.shape[1:-1], 1)), counted, 1.0)
        beyond = tuple(pad - known for pad, known in zip(pads, counted, strict=True))
        count = np.sum([view for _, view in _windows(_padded(ones, beyond, 0.0), *steps)], axis=0)
        total = total / count
    return _as_result(total, op.x.type)


MEANINGS: dict[type[Operation], Meaning] = {
    nn.ConvOp: _conv,
    nn.ConvTransposeOp: _conv_transpose,
    nn.PoolOp: _pool,
}
