"""Attention and embeddings as ONNX Runtime has them in single operators."""

from __future__ import annotations

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.frontend.onnx.converters.attention import (
    Frontier,
    Scores,
    attended,
    default_scale,
    heads,
    joined,
    number,
    per_row,
)
from lamina.frontend.onnx.kinds import INT32, INT64
from lamina.frontend.onnx.node import Node
from lamina.frontend.onnx.registry import MICROSOFT, converts
from lamina.frontend.onnx.values import Tensor


def refuse_inputs(node: Node, **inputs: int) -> None:
    """Raise UnsupportedError for an input that is given."""
    for name, index in inputs.items():
        if node.has(index):
            raise node.refuse(name)


@converts("MultiHeadAttention", domain=MICROSOFT)
def multi_head_attention(node: Node) -> list[Tensor]:
    """Attention with a bias of q, k and v, a padding mask, and a past that is joined."""
    refuse_inputs(node, past_sequence_length=8, cache_indirection=9)
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
