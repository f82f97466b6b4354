"""Attention and embeddings as ONNX Runtime has them in single operators."""

from __future__ import annotations

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.frontend.onnx.converters.attention import (
    Frontier,
    Scores,
    attended,
    both,
    default_scale,
    heads,
    joined,
    number,
    per_row,
)
from lamina.frontend.onnx.converters.rotary import rotated
from lamina.frontend.onnx.kinds import INT32, INT64
from lamina.frontend.onnx.node import Node
from lamina.frontend.onnx.registry import MICROSOFT, converts
from lamina.frontend.onnx.values import Tensor


def _refuse(node: Node, **inputs: int) -> None:
    """Raise UnsupportedError for an input that is given."""
    for name, index in inputs.items():
        if node.has(index):
            raise node.refuse(name)


@converts("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(node: Node) -> list[Tensor]:
    """Attention with a bias of q, k and v, a padding mask, and a past that is joined."""
    _refuse(node, past_sequence_length=8, cache_indirection=9)
    if len(node.value(0).shape) != 3 or not (node.has(1) and node.has(2)):
        raise node.refuse("packed queries, keys and values")
    count = node.get_int("num_heads")
    q, k, v = (_biased(node, i) for i in range(3))
    q, k, v = (heads(node, x, count) for x in (q, k, v))
    past = Dim.of(0)
    if node.has(6):
        past = node.value(6).shape[2]
        k, v = (node.concat([node.x(i), x], 2) for i, x in ((6, k), (7, v)))
    allowed = None
    if node.get_int("unidirectional", 0):
        frontier = Frontier.of(node, q.shape[2], k.shape[2], number(node, past))
        allowed = frontier.causal(node)
    added = _padding(node, q, k) if node.has(4) else None
    if node.has(5):
        given = node.x(5)
        added = given if added is None else node.binary(nn.AddOp, added, given)
    y, each = attended(node, q, k, v, Scores(default_scale(node, q), 0.0, allowed, added))
    return [joined(node, y), k, v, each[3]][: len(node.proto.output)]


def _biased(node: Node, index: int) -> Tensor:
    """Return queries, keys or values plus their part of the bias; a past has none."""
    x = node.x(index)
    if not node.has(3) or len(x.shape) == 4:
        return x
    start = Dim.of(0)
    for i in range(index):
        start = start + node.value(i).shape[-1]
    return node.binary(nn.AddOp, x, node.part(node.x(3), 0, start, x.shape[2]))


def _padding(node: Node, q: Tensor, k: Tensor) -> Tensor:
    """Return what a padding mask adds to scores: the node's number where there is padding."""
    mask, rows, keys = node.x(4), q.shape[2], k.shape[2]
    batch = q.shape[0]
    if len(mask.shape) == 1:
        if mask.shape[0] != batch:
            raise node.refuse(f"a padding mask of shape [{mask.shape[0]}]")
        places = node.iota(3, [1, 1, 1, keys], INT32)
        seen = node.compare("lt", places, per_row(node, mask))
    else:
        between = [rows] if len(mask.shape) == 3 else [Dim.of(1)]
        mask = node.retyped(mask, [batch, *between[: len(mask.shape) - 2], keys])
        mask = node.reshape(mask, [batch, 1, *between, keys])
        seen = node.compare("ne", mask, node.like(0, mask))
    filler = node.full(node.get_float("mask_filter_value", -10000.0), q.kind, [])
    return node.select(seen, node.full(0.0, q.kind, []), filler)


@converts("GroupQueryAttention", domain=MICROSOFT)
def group_query_attention(node: Node) -> list[Tensor]:
    """Causal attention of grouped heads; the past and the new keys of a sequence are joined.

    `seqlens_k` says how many keys a sequence has then, less 1: new ones follow its past.
    """
    _refuse(node, head_sink=11, k_scale=12, v_scale=13, q_norm_weight=14, query_seqlens=16)
    if node.get_int("smooth_softmax", 0) > 0 or not node.get_int("causal", 1):
        raise node.refuse("smooth_softmax, or attention that is not causal")
    q, k, v = _split(node)
    batch, _, rows, _ = q.shape
    total = node.scaled(nn.AddOp, node.reshape(node.cast(node.x(5), INT32), [batch]), 1)
    before = node.binary(nn.SubOp, total, node.reshape(number(node, rows), [1]))
    before = node.scaled(nn.MaxOp, before, 0)
    if node.get_int("do_rotary", 0):
        q, k = _turned(node, q, k, before)
    if node.has(3):
        k, v = (_appended(node, node.x(i), x, before) for i, x in ((3, k), (4, v)))
    frontier = Frontier.of(node, rows, k.shape[2], per_row(node, before))
    window = node.get_int("local_window_size", -1)
    seen = frontier.window(node, window - 1 if window > 0 else -1, -1)
    allowed = both(node, frontier.causal(node), seen)
    added = node.x(10) if node.has(10) else None
    scores = Scores(default_scale(node, q), node.get_float("softcap", 0.0), allowed, added)
    y, each = attended(node, q, k, v, scores)
    mode = node.get_int("qk_output", 0)
    return [joined(node, y), k, v, each[3 if mode == 2 else 2]][: len(node.proto.output)]


def _split(node: Node) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values by heads; they may be packed side by side."""
    count, groups = node.get_int("num_heads"), node.get_int("kv_num_heads")
    q = node.x(0)
    if node.has(1):
        k, v = node.x(1), node.x(2)
    else:
        width = q.shape[2] // (count + 2 * groups)
        sizes = (width * count, width * groups, width * groups)
        starts = (Dim.of(0), sizes[0], sizes[0] + sizes[1])
        q, k, v = (node.part(q, 2, a, n) for a, n in zip(starts, sizes, strict=True))
    return heads(node, q, count), heads(node, k, groups), heads(node, v, groups)


def _turned(node: Node, q: Tensor, k: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
    """Return queries and new keys turned by the angles of their positions."""
    batch, _, rows, _ = q.shape
    if node.has(9):
        places = node.x(9)
    else:
        first = node.reshape(before, [batch, 1])
        places = node.binary(nn.AddOp, node.iota(1, [1, rows], INT32), first)
    cos, sin = (node.gather(node.x(i), places, 0) for i in (7, 8))
    pairs = bool(node.get_int("rotary_interleaved", 0))
    q, k = (rotated(node, x, cos, sin, interleaved=pairs) for x in (q, k))
    return q, k


def _appended(node: Node, past: Tensor, new: Tensor, before: Tensor) -> Tensor:
    """Return `before[b]` keys of a past and then the new ones: [B, G, P + L, D]."""
    whole = node.concat([past, new], 2)
    batch, _, keys, _ = whole.shape
    if batch == 1:
        return whole
    places = node.iota(1, [1, keys], INT32)
    first = node.reshape(before, [batch, 1])
    # Where a past is shorter than others, the new keys move up to it.
    gap = node.binary(nn.SubOp, node.reshape(number(node, past.shape[2]), [1, 1]), first)
    moved = node.binary(nn.AddOp, places, gap)
    last = node.binary(nn.SubOp, number(node, keys), node.full(1, INT32, [1, 1, 1, 1]))
    moved = node.binary(nn.MinOp, moved, node.reshape(last, [1, 1]))
    index = node.select(node.compare("lt", places, first), places, moved)
    rows = node.transpose(whole, [0, 2, 1, 3])
    index = node.reshape(index, [batch, keys, 1])
    op = nn.GatherNdOp(rows.value, index.value, 1)
    return node.transpose(node.add(op, whole.kind), [0, 2, 1, 3])


@converts("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_normalization(node: Node) -> list[Tensor]:
    """Sums of embeddings of words, positions and segments, normed; words that count; the sums."""
    ids = node.x(0)
    batch, rows = ids.shape
    places = node.x(8) if node.has(8) else node.iota(1, [1, rows], INT64)
    total = node.gather(node.x(2), ids, 0)
    total = node.binary(nn.AddOp, total, node.gather(node.x(3), places, 0))
    if node.has(1):
        total = node.binary(nn.AddOp, total, node.gather(node.x(4), node.x(1), 0))
    gamma, beta = node.x(5), node.x(6)
    op = nn.LayerNormOp(total.value, gamma.value, beta.value, node.get_float("epsilon", 1e-12))
    y = node.add(op, total.kind)
    if node.has(7):
        words = node.reduce("add", node.cast(node.x(7), INT32), [1])
    else:
        words = node.full(0, INT32, [batch])
    return [y, words, total][: len(node.proto.output)]
