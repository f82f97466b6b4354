"""Rotary embeddings: pairs of elements turned by angles of their token's position."""

from __future__ import annotations

from lamina.dialects import nn
from lamina.frontend.onnx.converters.attention import heads, joined
from lamina.frontend.onnx.kinds import FLOAT, INT64
from lamina.frontend.onnx.node import Node
from lamina.frontend.onnx.registry import MICROSOFT, converts
from lamina.frontend.onnx.values import Tensor


@converts("RotaryEmbedding", since=23)
def rotary_embedding(node: Node) -> Tensor:
    """Pairs turned by given angles, or by those of tables at given positions."""
    x = node.x(0)
    split = heads(node, x, node.get_int("num_heads", 0))
    cos, sin = node.x(1), node.x(2)
    if node.has(3):
        cos, sin = (node.gather(table, node.x(3), 0) for table in (cos, sin))
    y = rotated(node, split, cos, sin, interleaved=bool(node.get_int("interleaved", 0)))
    return joined(node, y) if len(x.shape) == 3 else y


@converts("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding_of_tables(node: Node) -> Tensor:
    """Pairs turned by the angles of tables, at given positions or from one position on."""
    if node.get_int("is_packed_batching", 0):
        raise node.refuse("is_packed_batching")
    x, cos, sin = node.x(0), node.x(2), node.x(3)
    count, turned = node.get_int("num_heads", 0), node.get_int("rotary_embedding_dim", 0)
    if len(x.shape) == 3 and not count:
        width = turned or (cos.shape[1].constant or 0) * 2
        count = (x.shape[2] // width).constant or 0 if width else 0
    split = heads(node, x, count)
    batch, _, rows, _ = split.shape
    places = node.x(1)
    if len(places.shape) == 1:
        steps = node.iota(1, [1, rows], INT64)
        first = node.reshape(node.cast(places, INT64), [1, 1])
        places = node.broadcast_to(node.binary(nn.AddOp, steps, first), [batch, rows])
    cos, sin = (node.gather(table, places, 0) for table in (cos, sin))
    y = rotated(node, split, cos, sin, interleaved=bool(node.get_int("interleaved", 0)))
    return joined(node, y) if len(x.shape) == 3 else y


def rotated(node: Node, x: Tensor, cos: Tensor, sin: Tensor, *, interleaved: bool) -> Tensor:
    """Return x[B, H, L, D] whose first elements are turned by cos and sin [B, L, R / 2]."""
    batch, count, rows, width = x.shape
    wide = FLOAT if x.kind.bits == 16 else x.kind
    flat = node.reshape(node.transpose(x, [0, 2, 1, 3]), [batch * rows, count, width])
    angles = [
        node.reshape(
            node.retyped(node.cast(t, wide), [batch, rows, t.shape[2]]), [batch * rows, t.shape[2]]
        )
        for t in (cos, sin)
    ]
    op = nn.RopeOp(node.cast(flat, wide).value, *(t.value for t in angles), interleaved=interleaved)
    y = node.cast(node.add(op, wide), x.kind)
    return node.transpose(node.reshape(y, [batch, rows, count, width]), [0, 2, 1, 3])
