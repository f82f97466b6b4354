"""What the composites of `nn` compute, whole: in float64, rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import Operation

from lamina.dialects import nn
from lamina.dialects.quant import BlocksType
from lamina.targets.reference import numerics
from lamina.targets.reference.blocks import dequantized
from lamina.targets.reference.dtypes import Array
from lamina.targets.reference.interpreter import Interpreter, Meaning
from lamina.targets.reference.nn_shapes import check_indices

Args = tuple[Any, ...]


def softmax(x: Array, axis: int) -> Array:
    """Return `e^(x - max x) / sum e^(x - max x)` of float64 values along `axis`."""
    weights = np.exp(x - x.max(axis, keepdims=True, initial=-np.inf))
    return weights / weights.sum(axis, keepdims=True)


def _softmax(run: Interpreter, op: nn.SoftmaxOp, args: Args) -> tuple[Any]:
    (x,) = args
    return (numerics.narrow(softmax(x.astype(np.float64), op.axis.value.data), x.dtype),)


def _mean(x: Array) -> Array:
    """Return the mean along the last dimension, which stays; of nothing, NaN."""
    return x.sum(-1, keepdims=True) / np.float64(x.shape[-1])


def _layer_norm(run: Interpreter, op: nn.LayerNormOp, args: Args) -> tuple[Any]:
    x, w, b = (each.astype(np.float64) for each in args)
    centred = x - _mean(x)
    deviation = np.sqrt(_mean(np.square(centred)) + op.eps.value.data)
    return (numerics.narrow(centred / deviation * w + b, args[0].dtype),)


def _rms_norm(run: Interpreter, op: nn.RmsNormOp, args: Args) -> tuple[Any]:
    x, w = (each.astype(np.float64) for each in args)
    size = np.sqrt(_mean(np.square(x)) + op.eps.value.data)
    return (numerics.narrow(x / size * w, args[0].dtype),)


def _rope(run: Interpreter, op: nn.RopeOp, args: Args) -> tuple[Any]:
    x = args[0]
    cos, sin = (each[:, None].astype(np.float64) for each in args[1:])
    half = cos.shape[-1]
    paired = op.interleaved is not None
    first = np.s_[..., 0 : 2 * half : 2] if paired else np.s_[..., :half]
    second = np.s_[..., 1 : 2 * half : 2] if paired else np.s_[..., half : 2 * half]
    a, b = x[first].astype(np.float64), x[second].astype(np.float64)
    y = x.copy()
    y[first] = numerics.narrow(a * cos - b * sin, x.dtype)
    y[second] = numerics.narrow(a * sin + b * cos, x.dtype)
    return (y,)


def _attention(run: Interpreter, op: nn.AttentionOp, args: Args) -> tuple[Any]:
    q, k, v = (each.astype(np.float64) for each in args[:3])
    batch, heads, queries, depth = q.shape
    groups, keys = k.shape[1:3]
    grouped = q.reshape(batch, groups, heads // groups if groups else 0, queries, depth)
    scores = np.einsum("bgrld,bgmd->bgrlm", grouped, k, optimize=True) * op.scale.value.data
    if op.mask is not None:
        scores += args[3][:, None, None, None].astype(np.float64)
    if op.causal is not None:
        seen = np.tri(queries, keys, keys - queries, np.bool_)
        scores = numerics.choose(seen, scores, -np.inf)
    y = np.einsum("bgrlm,bgmd->bgrld", softmax(scores, -1), v, optimize=True)
    return (numerics.narrow(y.reshape(q.shape), args[0].dtype),)


def _embedding(run: Interpreter, op: nn.EmbeddingOp, args: Args) -> tuple[Any]:
    table, ids = args
    check_indices(op, ids, len(table))
    rows = np.take(table, ids.reshape(-1), 0)
    if isinstance(op.table.type, BlocksType):
        rows = dequantized(op.table.type.format.data, rows)
    return (rows.astype(np.float32).reshape(run.shape(op.y.type)),)


MEANINGS: dict[type[Operation], Meaning] = {
    nn.SoftmaxOp: _softmax,
    nn.LayerNormOp: _layer_norm,
    nn.RmsNormOp: _rms_norm,
    nn.RopeOp: _rope,
    nn.AttentionOp: _attention,
    nn.EmbeddingOp: _embedding,
}
