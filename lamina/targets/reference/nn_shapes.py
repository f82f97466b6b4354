"""What the operations of `nn` do that move elements and change none: shapes, parts, counts."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import Operation

from lamina.dialects import nn, tile
from lamina.errors import InputError
from lamina.targets.reference.dtypes import Array, constant, dtype_of
from lamina.targets.reference.interpreter import Interpreter, Meaning
from lamina.targets.reference.source import source_of

Args = tuple[Any, ...]


def _iota(run: Interpreter, op: nn.IotaOp, args: Args) -> tuple[Any]:
    shape, dim = run.shape(op.y.type), op.dim.value.data
    steps = np.arange(shape[dim]).astype(dtype_of(op.y.type))
    aligned = steps.reshape([-1 if d == dim else 1 for d in range(len(shape))])
    return (np.broadcast_to(aligned, shape),)


def _extents(run: Interpreter, op: nn.ExtentsOp, args: Args) -> tuple[Any]:
    found = [dim.evaluate(run.extents) for dim in op.extents]
    return (np.array(found, np.int64).astype(dtype_of(op.y.type)).reshape(run.shape(op.y.type)),)


def _broadcast(run: Interpreter, op: nn.BroadcastOp, args: Args) -> tuple[Any]:
    shape = run.shape(op.y.type)
    sizes = dict(zip(tile.values(op.dims), args[0].shape, strict=True))
    aligned = args[0].reshape([sizes.get(d, 1) for d in range(len(shape))])
    return (np.broadcast_to(aligned, shape),)


def _reshape(run: Interpreter, op: nn.ReshapeOp, args: Args) -> tuple[Any]:
    return (args[0].reshape(run.shape(op.y.type)),)


def _transpose(run: Interpreter, op: nn.TransposeOp, args: Args) -> tuple[Any]:
    return (args[0].transpose(tile.values(op.perm)),)


def _slice(run: Interpreter, op: nn.SliceOp, args: Args) -> tuple[Any]:
    shape = run.shape(op.y.type)
    starts = [start.evaluate(run.extents) for start in op.starts]
    steps = tile.values(op.step) or (1,) * len(shape)
    bounds = zip(starts, shape, steps, args[0].shape, strict=True)
    return (args[0][tuple(_bounds(op, *each) for each in bounds)],)


def _bounds(op: Operation, start: int, size: int, step: int, extent: int) -> slice:
    if size == 0:
        return slice(0, 0)
    last = start + (size - 1) * step
    if min(start, last) < 0 or max(start, last) >= extent:
        raise InputError(f"{source_of(op)}: a slice from {start} to {last} of {extent} elements")
    end = last + (1 if step > 0 else -1)
    return slice(start, end if end >= 0 else None, step)


def _pad(run: Interpreter, op: nn.PadOp, args: Args) -> tuple[Any]:
    y = np.full(run.shape(op.y.type), constant(op.value, op.y.type))
    lows = [low.evaluate(run.extents) for low in op.lows]
    highs = [high.evaluate(run.extents) for high in op.highs]
    kept = tuple(
        slice(max(0, -low), max(0, -low, size + min(0, high)))
        for low, size, high in zip(lows, args[0].shape, highs, strict=True)
    )
    inside = args[0][kept]
    starts = (max(0, low) for low in lows)
    y[tuple(slice(at, at + n) for at, n in zip(starts, inside.shape, strict=True))] = inside
    return (y,)


def _concat(run: Interpreter, op: nn.ConcatOp, args: Args) -> tuple[Any]:
    return (np.concatenate(args, op.dim.value.data),)


def _gather(run: Interpreter, op: nn.GatherOp, args: Args) -> tuple[Any]:
    x, indices = args
    check_indices(op, indices, x.shape[op.axis.value.data])
    return (np.take(x, indices, op.axis.value.data),)


def check_indices(op: Operation, indices: Array, size: int) -> None:
    """Raise InputError, naming the source node, if an index is outside `[0, size)`."""
    wrong = indices[(indices < 0) | (indices >= size)]
    if wrong.size:
        raise InputError(f"{source_of(op)}: the index {wrong[0]} is outside of [0, {size})")


MEANINGS: dict[type[Operation], Meaning] = {
    nn.IotaOp: _iota,
    nn.BroadcastOp: _broadcast,
    nn.ReshapeOp: _reshape,
    nn.TransposeOp: _transpose,
    nn.SliceOp: _slice,
    nn.PadOp: _pad,
    nn.ConcatOp: _concat,
    nn.GatherOp: _gather,
    nn.ExtentsOp: _extents,
}
