"""Attention of grouped heads with a past, as ONNX Runtime has it."""

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
from lamina.frontend.onnx.converters.fused_attention import refuse_inputs
from lamina.frontend.onnx.converters.rotary import rotated
from lamina.frontend.onnx.kinds import INT32, INT64
from lamina.frontend.onnx.node import Node
from lamina.frontend.onnx.registry import MICROSOFT, converts
from lamina.frontend.onnx.values import Known, Tensor


@converts("GroupQueryAttention", domain=MICROSOFT)
def group_query_attention(node: Node) -> list[Tensor]:
    """Causal attention of grouped heads; the past and the new keys of a sequence are joined.

    `seqlens_k` says how many keys a sequence has then, less 1: new ones follow its past.
    """
    refuse_inputs(node, k_scale=12, v_scale=13, q_norm_weight=14, query_seqlens=16)
    if not node.get_int("causal", 1):
        raise node.refuse("attention that is not causal")
    q, k, v = _split(node)
    batch, _, rows, _ = q.shape
    total = node.scaled(nn.AddOp, node.reshape(node.cast(node.x(5), INT32), [batch]), 1)
    before = node.binary(nn.SubOp, total, node.reshape(number(node, rows), [1]))
    before = node.scaled(nn.MaxOp, before, 0)
    if node.get_int("do_rotary", 0):
        q, k = _turned(node, q, k, before)
    present = k, v
    if node.has(3):
        past, seen_keys = node.value(3).shape[2], _total(node)
        count = seen_keys.maximum(past)
        present = tuple(_appended(node, node.x(i), x, before, count) for i, x in ((3, k), (4, v)))
        k, v = (node.part(x, 2, 0, seen_keys) for x in present)
    frontier = Frontier.of(node, rows, k.shape[2], per_row(node, before))
    window = node.get_int("local_window_size", -1)
    seen = frontier.window(node, window - 1 if window > 0 else -1, -1)
    allowed = both(node, frontier.causal(node), seen)
    added = node.x(10) if node.has(10) else None
    softcap = node.get_float("softcap", 0.0)
    scores = Scores(default_scale(node, q), softcap, allowed, added, sink=_sink(node, q))
    y, each = attended(node, q, k, v, scores)
    mode = node.get_int("qk_output", 0)
    found = [joined(node, y), *present, each[3 if mode == 2 else 2]]
    return found[: len(node.proto.output)]


def _total(node: Node) -> Dim:
    """Return how many keys the longest sequence has, an input: the past may have room for more."""
    value = node.value(6)
    if isinstance(value, Known):
        return node.dims(6)[0]
    (n,) = names = node.symbols(1)
    node.bind(node.reshape(node.cast(node.x(6), INT64), [1]), names)
    return n


def _sink(node: Node, q: Tensor) -> Tensor | None:
    """Return the score of a key without a value: one a head, or 0 for a smooth softmax."""
    if node.has(11):
        return node.reshape(node.x(11), [1, q.shape[1], 1, 1])
    return node.full(0, q.kind, [1, 1, 1, 1]) if node.get_int("smooth_softmax", 0) > 0 else None


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


def _appended(node: Node, past: Tensor, new: Tensor, before: Tensor, count: Dim) -> Tensor:
    """Return `count` keys: `before[b]` of a past, the new ones, and what the past has behind."""
    whole = node.concat([past, new], 2)
    batch, _, keys, _ = whole.shape
    if batch == 1 and count == keys:
        return whole
    places = node.broadcast_to(node.iota(1, [1, count], INT32), [batch, count])
    first = node.broadcast_to(node.reshape(before, [batch, 1]), [batch, count])
    fresh = node.binary(nn.SubOp, places, first)
    own = node.compare("ge", fresh, node.like(0, fresh))
    within = node.compare("lt", fresh, node.broadcast_to(_one(node, new.shape[2]), fresh.shape))
    own = node.binary(nn.AndOp, own, within)
    moved = node.binary(nn.AddOp, fresh, _one(node, past.shape[2]))
    last = node.scaled(nn.SubOp, _one(node, keys), 1)
    index = node.select(own, moved, node.binary(nn.MinOp, places, last))
    rows = node.transpose(whole, [0, 2, 1, 3])
    index = node.reshape(index, [batch, count, 1])
    op = nn.GatherNdOp(rows.value, index.value, 1)
    return node.transpose(node.add(op, whole.kind), [0, 2, 1, 3])


def _one(node: Node, extent: Dim) -> Tensor:
    return node.reshape(number(node, extent), [1, 1])
