"""What `quant` computes: blocks taken apart and packed, 8-bit activations, exact block products."""

from __future__ import annotations

from typing import Any, Final, cast

import numpy as np
from xdsl.ir import Operation

from lamina.dialects import quant
from lamina.dialects.quant import BLOCK, ROWS, BlocksType
from lamina.targets.reference import numerics
from lamina.targets.reference.blocks import take_apart
from lamina.targets.reference.dtypes import Array
from lamina.targets.reference.interpreter import Interpreter, Meaning
from lamina.targets.reference.quants import Quants, values_of

Args = tuple[Any, ...]

_AT_ONCE: Final = 256 << 10
"""Bytes of a file's blocks that are packed at once: what is made of them stays in cache."""


def _quantize(run: Interpreter, op: quant.QuantizeOp, args: Args) -> tuple[Any, Any, Any]:
    (x,) = args
    rest = x.astype(np.float32).reshape(len(x), x.shape[1] // BLOCK, BLOCK)
    terms: list[tuple[Array, Array]] = []
    for _ in range(op.terms):
        q, d = _term(rest)
        terms.append((q, d))
        rest = numerics.fma(-q.astype(np.float32), d[..., None], rest)
    q, d = (np.stack(each, axis=2) for each in zip(*terms, strict=True))
    return q.reshape(run.shape(op.q.type)), d.reshape(run.shape(op.d.type)), _sums(q, d)


def _term(x: Array) -> tuple[Array, Array]:
    """Return quants and scales of blocks [T, K / 32, 32]."""
    d = np.abs(x).max(-1) / np.float32(127)
    scaled = np.where(d[..., None] < quant.LEAST_SCALE, np.float32(0), x / d[..., None])
    return np.maximum(numerics.cast(scaled, np.dtype(np.int8)), np.int8(-127)), d


def _sums(q: Array, d: Array) -> Array:
    """Return the sum over terms of `d * sum(q)`, of q [T, G, n, g] and d [T, G, n]."""
    totals = q.sum(-1, dtype=np.int32).astype(np.float32)
    s = d[:, :, 0] * totals[:, :, 0]
    for term in range(1, q.shape[2]):
        s = numerics.fma(d[:, :, term], totals[:, :, term], s)
    return s


def _rows(run: Interpreter, op: quant.RowsOp, args: Args) -> tuple[Any]:
    first = op.start.value.data
    return (args[0][first : first + op.y.type.shape[0]],)


def _pack(run: Interpreter, op: quant.PackOp, args: Args) -> tuple[Any, ...]:
    (w,) = args
    form = cast("BlocksType", op.w.type).format.data
    rooms = [run.room(result) for result in op.results]
    count = max(1, _AT_ONCE // (ROWS * w.shape[1])) * ROWS
    for first in range(0, len(w), count):
        parts = take_apart(form, w[first : first + count])
        here = slice(first // ROWS, -(-(first + len(parts.scale)) // ROWS))
        _tile(parts.quants, rooms[0][here])
        for scales, room in zip((parts.scale, parts.offset), rooms[1:], strict=False):
            assert scales is not None
            room[here] = _padded(scales).reshape(-1, ROWS, scales.shape[1]).transpose(0, 2, 1)
    return tuple(rooms)


def _tile(quants: Array, out: Array) -> None:
    """Write quants [N, K / g, g] to `[N / 16, K / 32, bits, 16, 4]`, padded with zeros."""
    blocks, bits = out.shape[1:3]
    groups = _padded(quants).view(np.uint32).reshape(-1, ROWS, blocks, BLOCK // 4)
    tiles, words = groups.transpose(0, 2, 3, 1), out.view(np.uint32)[..., 0]
    if bits == 4:
        tiles = np.ascontiguousarray(tiles)
        np.left_shift(tiles[:, :, 1::2], np.uint32(4), out=words)
        np.bitwise_or(words, tiles[:, :, 0::2], out=words)
    else:
        words[...] = tiles


def _padded(x: Array) -> Array:
    missing = -len(x) % ROWS
    if not missing:
        return np.ascontiguousarray(x)
    return np.concatenate([x, np.zeros((missing, *x.shape[1:]), x.dtype)])


def _parts(op: quant.DequantizeOp | quant.LinearOp, w: Args, rows: int) -> Quants:
    """Return the weight that the operands `w` hold, whichever form it is in."""
    if isinstance(kind := op.w[0].type, BlocksType):
        return take_apart(kind.format.data, w[0])
    tiles, blocks, bits = w[0].shape[:3]
    packed = np.ascontiguousarray(w[0]).view(np.uint8)
    if bits == 4:
        both = np.stack([packed & 15, packed >> 4], axis=3)
        packed = both.reshape(tiles, blocks, 8, ROWS, 4)
    groups = w[1].shape[1]
    quants = packed.transpose(0, 3, 1, 2, 4).reshape(tiles * ROWS, groups, op.group)
    scales = [each.transpose(0, 2, 1).reshape(tiles * ROWS, groups)[:rows] for each in w[1:]]
    offset = scales[1] if op.has_offset else None
    return Quants(quants[:rows], scales[0], offset, op.zero.value.data)


def _dequantize(run: Interpreter, op: quant.DequantizeOp, args: Args) -> tuple[Any]:
    return (values_of(_parts(op, args, run.shape(op.y.type)[0])),)


def _linear(run: Interpreter, op: quant.LinearOp, args: Args) -> tuple[Any]:
    q, d, s, *w = args
    tokens, rows = run.shape(op.y.type)
    parts = _parts(op, tuple(w), rows)
    scale, offset = parts.scale.astype(np.float32), _offset(parts)
    groups, size = parts.quants.shape[1:]
    q, d, s = _by_group(op.terms, size, (q, d, s))
    y = np.zeros((tokens, rows), np.float32)
    for k in range(groups):
        for term in range(op.terms):
            sums = q[:, k, term].astype(np.float32) @ parts.quants[:, k].astype(np.float32).T
            y = numerics.fma(sums, scale[:, k] * d[:, k, term, None], y)
        if offset is not None:
            y = numerics.fma(offset[:, k], s[:, k, None], y)
    return (y,)


def _offset(parts: Quants) -> Array | None:
    """Return what is added to `scale * quant` in a product: f32 [N, K / g], or None for nothing."""
    offset = None if parts.offset is None else parts.offset.astype(np.float32)
    if parts.zero == 0:
        # An infinite scale has no finite multiple, not even by 0.
        return offset
    shift = parts.scale.astype(np.float32) * np.float32(-parts.zero)
    return shift if offset is None else shift + offset


def _by_group(terms: int, size: int, activations: Args) -> tuple[Array, Array, Array]:
    """Return q [T, K / g, n, g], d [T, K / g, n] and s [T, K / g] for groups of g = `size`."""
    q, d, s = activations
    tokens, blocks = s.shape
    parts = BLOCK // size
    q = q.reshape(tokens, blocks, terms, parts, size).transpose(0, 1, 3, 2, 4)
    q = q.reshape(tokens, blocks * parts, terms, size)
    d = np.repeat(d.reshape(tokens, blocks, terms), parts, axis=1)
    return q, d, s if parts == 1 else _sums(q, d)


MEANINGS: dict[type[Operation], Meaning] = {
    quant.QuantizeOp: _quantize,
    quant.PackOp: _pack,
    quant.RowsOp: _rows,
    quant.DequantizeOp: _dequantize,
    quant.LinearOp: _linear,
}
