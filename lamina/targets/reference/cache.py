"""What `cache` does: pools are arrays that a write changes in place, for each is used once.

A position whose page or row is outside of its table or pool is not read; a write of it is an error.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from xdsl.ir import Operation

from lamina.dialects import cache
from lamina.dialects.cache import PagesType
from lamina.errors import InputError
from lamina.targets.reference import numerics
from lamina.targets.reference.dtypes import Array
from lamina.targets.reference.interpreter import Interpreter, Meaning
from lamina.targets.reference.nn_composites import softmax
from lamina.targets.reference.source import source_of

Args = tuple[Any, ...]


def _sequence(run: Interpreter, op: cache.SequenceOp, args: Args) -> tuple[Any]:
    (tokens,) = run.shape(op.y.type)
    ends = args[0][1:]
    return (np.searchsorted(ends, np.arange(tokens), side="right").astype(np.int32),)


def _write(run: Interpreter, op: cache.WriteOp, args: Args) -> tuple[Any]:
    pool, x, positions, sequence, table = args
    kind = cast("PagesType", op.pages.type)
    page, inside = _pages(kind, pool, table, sequence, positions)
    if not inside.all():
        token = int(np.argmin(inside))
        raise InputError(
            f"{source_of(op)}: token {token}, at position {positions[token]} of sequence "
            f"{sequence[token]}, has no page"
        )
    row = positions % kind.page.value.data
    pool[_at(kind, page, row)] = numerics.cast(x, pool.dtype)
    return (pool,)


def _read(run: Interpreter, op: cache.ReadOp, args: Args) -> tuple[Any]:
    pool, positions, sequence, table = args
    kind = cast("PagesType", op.pages.type)
    shape = run.shape(op.y.type)
    places = np.broadcast_to(np.arange(shape[1]), shape[:2])
    rows = _visible(kind, pool, table, sequence[:, None], places, positions[:, None])
    return (rows.astype(np.float32).reshape(shape),)


def _visible(
    kind: PagesType, pool: Array, table: Array, sequence: Array, places: Array, last: Array
) -> Array:
    """Return what lies at `places` of a sequence, [..., heads, dim]; 0 beyond `last`."""
    page, inside = _pages(kind, pool, table, np.broadcast_to(sequence, places.shape), places)
    seen = (inside & (places <= last))[..., None, None]
    if not len(pool):
        return np.zeros((*places.shape, kind.heads.value.data, kind.dim.value.data))
    return np.where(seen, pool[_at(kind, page, places % kind.page.value.data)], 0)


def _attention(run: Interpreter, op: cache.AttentionOp, args: Args) -> tuple[Any]:
    q, k, v, positions, query_start, table, work = args
    kinds = cast("PagesType", op.k.type), cast("PagesType", op.v.type)
    block, scale = op.block.value.data, op.scale.value.data
    y = np.full(q.shape, np.nan, np.float32)
    for s, b in work:
        first = query_start[s] + b * block
        tokens = slice(first, min(first + block, query_start[s + 1]))
        last = positions[tokens].max(initial=-1)
        places: Array = np.arange(int(last) + 1)
        keys, values = (
            _visible(kind, pool, table, s, places, last)
            for kind, pool in zip(kinds, (k, v), strict=True)
        )
        y[tokens] = _attend(q[tokens], keys, values, places > positions[tokens, None], scale)
    return (y,)


def _attend(q: Array, k: Array, v: Array, hidden: Array, scale: float) -> Array:
    """Attention of q[T, H, D] over k and v [L, G, D], without what is `hidden` [T, L]."""
    scores = _scores(q, k, scale)
    weights = softmax(np.where(hidden[:, None, None], -np.inf, scores), -1)
    return _weighted(weights, v).reshape(q.shape)


def _weighted(weights: Array, v: Array) -> Array:
    """Sums [T, G, H / G, D] of values by their weights."""
    return np.einsum("tgrl,lgd->tgrd", weights, v.astype(np.float64), optimize=True)


def _scores(q: Array, k: Array, scale: float) -> Array:
    """Scaled products [T, G, H / G, L] of queries and keys, in f64."""
    tokens, heads, depth = q.shape
    k = k.astype(np.float64)
    groups = k.shape[1]
    grouped = q.astype(np.float64).reshape(tokens, groups, heads // groups, depth)
    return np.einsum("tgrd,lgd->tgrl", grouped, k, optimize=True) * scale


def _partial(run: Interpreter, op: cache.PartialAttentionOp, args: Args) -> tuple[Any]:
    q, k, v, positions, query_start, table, work = args
    kinds = cast("PagesType", op.k.type), cast("PagesType", op.v.type)
    block, scale, span = op.block.value.data, op.scale.value.data, op.span.value.data
    y = np.full(run.shape(op.y.type), np.nan, np.float32)
    for s, b in work:
        first = query_start[s] + b * block
        for token in range(first, min(first + block, query_start[s + 1])):
            end = min(int(positions[token]) + 1, y.shape[2] * span)
            for part, begin in enumerate(range(0, end, span)):
                places: Array = np.arange(begin, min(begin + span, end))
                keys, values = (
                    _visible(kind, pool, table, s, places, positions[token])
                    for kind, pool in zip(kinds, (k, v), strict=True)
                )
                y[token, :, part] = _part(q[token : token + 1], keys, values, scale)
    return (y,)


def _part(q: Array, k: Array, v: Array, scale: float) -> Array:
    """Weighted values, maximum and sum [H, D + 4] of q[1, H, D] over k and v [L, G, D]."""
    scores = _scores(q, k, scale)
    found = np.full((q.shape[1], q.shape[2] + cache.BESIDE), np.nan)
    top = np.fmax.reduce(scores, -1)
    weights = np.exp(scores - top[..., None])
    heads, width = q.shape[1:]
    found[:, :width] = _weighted(weights, v).reshape(heads, width)
    found[:, width], found[:, width + 1] = top.reshape(-1), weights.sum(-1).reshape(-1)
    return found


def _merge(run: Interpreter, op: cache.MergeOp, args: Args) -> tuple[Any]:
    parts, positions = args
    width, span = parts.shape[-1] - cache.BESIDE, op.span.value.data
    y = np.full(run.shape(op.y.type), np.nan, np.float32)
    for token, position in enumerate(positions):
        seen = parts[token, :, : int(position) // span + 1].astype(np.float64)
        tops = seen[..., width]
        factors = np.exp(tops - tops.max(-1, keepdims=True, initial=-np.inf))
        summed = np.einsum("hp,hpd->hd", factors, seen)
        y[token] = summed[:, :width] / summed[:, width + 1, None]
    return (y,)


def _pages(
    kind: PagesType, pool: Array, table: Array, sequence: Array, places: Array
) -> tuple[Array, Array]:
    """Return the page of each place, 0 where there is none, and where there is one."""
    block = places // kind.page.value.data
    inside = (places >= 0) & (block < table.shape[1])
    inside &= (sequence >= 0) & (sequence < len(table))
    if not table.size:
        return np.zeros_like(block), np.zeros_like(inside)
    page = table[np.where(inside, sequence, 0), np.where(inside, block, 0)]
    inside &= (page >= 0) & (page < len(pool))
    return np.where(inside, page, 0), inside


def _at(kind: PagesType, page: Array, row: Array) -> tuple[Any, ...]:
    """Return the subscript of rows of pages in the pool's layout: [..., heads, dim]."""
    every, tile = slice(None), kind.tile.value.data
    if not tile:
        return page, every, row
    return page, every, row // tile, every, row % tile


MEANINGS: dict[type[Operation], Meaning] = {
    cache.SequenceOp: _sequence,
    cache.WriteOp: _write,
    cache.ReadOp: _read,
    cache.AttentionOp: _attention,
    cache.PartialAttentionOp: _partial,
    cache.MergeOp: _merge,
}
