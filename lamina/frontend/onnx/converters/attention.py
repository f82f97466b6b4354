"""Attention, as the standard has it, from products, masks and softmax."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.frontend.onnx.kinds import BOOL, FLOAT, INT32, KINDS, Kind
from lamina.frontend.onnx.node import Node
from lamina.frontend.onnx.registry import converts
from lamina.frontend.onnx.values import Tensor


@dataclass(frozen=True)
class Scores:
    """What is done between the two products: how scores are scaled, bent and masked.

    `allowed` are the keys that a query may see, `added` is added to scores; both repeat to
    [B, H, L, M]. `masks` says whether there can be queries that see no key: their rows are 0.
    `sink` [1, H, 1, 1] is the score of one more key, which has no value.
    """

    scale: float
    softcap: float = 0.0
    allowed: Tensor | None = None
    added: Tensor | None = None
    masks: bool = False
    softmax: Kind | None = None
    sink: Tensor | None = None


def attended(
    node: Node, q: Tensor, k: Tensor, v: Tensor, scores: Scores
) -> tuple[Tensor, list[Tensor]]:
    """Return y[B, H, L, E] for q[B, H, L, D], k[B, G, M, D], v[B, G, M, E], H a multiple of G.

    Beside it the scores: as products, bent, masked, and as weights.
    """
    kind = q.kind
    root = math.sqrt(scores.scale)
    q, k = (node.scaled(nn.MulOp, x, root) for x in (q, k))
    raw = node.cast(_grouped(node, q, k, 3), kind)
    bent = _bent(node, raw, scores.softcap)
    bias = _bias(node, scores, kind)
    masked = bent if bias is None else node.binary(nn.AddOp, bent, bias)
    wide = scores.softmax or kind
    wide = FLOAT if wide.bits < 32 else wide
    weights = _weights(node, node.cast(masked, wide), scores.sink)
    if bias is not None and scores.masks:
        weights = _seeing(node, weights, bias)
    weights = node.cast(weights, kind)
    y = node.cast(_grouped(node, weights, v, 2), kind)
    return y, [raw, bent, masked, weights]


def _weights(node: Node, logits: Tensor, sink: Tensor | None) -> Tensor:
    if sink is None:
        return node.add(nn.SoftmaxOp(logits.value, 3), logits.kind)
    column = node.broadcast_to(node.cast(sink, logits.kind), [*logits.shape[:3], Dim.of(1)])
    wide = node.concat([logits, column], 3)
    weights = node.add(nn.SoftmaxOp(wide.value, 3), logits.kind)
    return node.part(weights, 3, 0, logits.shape[3])


def _grouped(node: Node, a: Tensor, b: Tensor, contracted: int) -> Tensor:
    """Return products of a[B, H, L, K] with b[B, G, …], heads sharing those of their group."""
    heads, groups = a.shape[1], b.shape[1]
    if heads == groups:
        return node.dot(a, b, [(3, contracted)], [(0, 0), (1, 1)])
    if heads % groups != Dim.of(0):
        raise node.fault(f"{heads} heads of queries for {groups} of keys")
    batch, _, rows, depth = a.shape
    split = node.reshape(a, [batch, groups, heads // groups, rows, depth])
    y = node.dot(split, b, [(4, contracted)], [(0, 0), (1, 1)])
    return node.reshape(y, [batch, heads, rows, y.shape[4]])


def _bent(node: Node, x: Tensor, softcap: float) -> Tensor:
    if softcap <= 0:
        return x
    inner = node.unary(nn.TanhOp, node.scaled(nn.DivOp, x, softcap))
    return node.scaled(nn.MulOp, inner, softcap)


def _bias(node: Node, scores: Scores, kind: Kind) -> Tensor | None:
    """Return what is added to scores: -infinity for keys that are not seen."""
    added, allowed = scores.added, scores.allowed
    if allowed is None:
        return added
    lowest = node.full(-math.inf, kind, [])
    return node.select(allowed, node.full(0, kind, []) if added is None else added, lowest)


def _seeing(node: Node, weights: Tensor, bias: Tensor) -> Tensor:
    """Return weights in which rows are 0 that see no key."""
    rows = node.reduce("max", bias, [len(bias.shape) - 1], keep=True)
    none = node.compare("eq", rows, node.like(-math.inf, rows))
    return node.select(none, node.full(0, weights.kind, []), weights)


# Masks


@dataclass(frozen=True)
class Frontier:
    """Where queries stand among keys: query i is at `offset + i`; both are i32 tensors.

    They repeat to [B, 1, L, M].
    """

    queries: Tensor
    keys: Tensor

    @staticmethod
    def of(node: Node, rows: Dim, keys: Dim, offset: Tensor) -> Frontier:
        """Return the places of `rows` queries, from `offset` on, and of keys."""
        own = node.iota(2, [1, 1, rows, 1], INT32)
        return Frontier(node.binary(nn.AddOp, own, offset), node.iota(3, [1, 1, 1, keys], INT32))

    def causal(self, node: Node) -> Tensor:
        """Return which keys are not after their query."""
        return node.compare("le", self.keys, self.queries)

    def window(self, node: Node, left: int, right: int) -> Tensor | None:
        """Return which keys are at most so far before or after; -1 is any distance."""
        found: Tensor | None = None
        for kind, reach in (("ge", -left), ("le", right)):
            if (left if kind == "ge" else right) < 0:
                continue
            end = node.scaled(nn.AddOp, self.queries, reach) if reach else self.queries
            found = both(node, found, node.compare(kind, self.keys, end))
        return found


def both(node: Node, a: Tensor | None, b: Tensor | None) -> Tensor | None:
    """Return where two masks allow; None allows all."""
    if a is None or b is None:
        return a or b
    return node.binary(nn.AndOp, a, b)


def number(node: Node, dim: Dim) -> Tensor:
    """Return an extent as an i32 that repeats to any scores."""
    if dim.constant is not None:
        return node.full(dim.constant, INT32, [1, 1, 1, 1])
    return node.reshape(node.extents([dim], INT32), [1, 1, 1, 1])


def per_row(node: Node, x: Tensor) -> Tensor:
    """Return integers [B] as i32 that repeat to scores [B, H, L, M]."""
    return node.reshape(node.cast(x, INT32), [x.shape[0], 1, 1, 1])


def heads(node: Node, x: Tensor, count: int) -> Tensor:
    """Return x[B, L, H * D] as [B, H, L, D]; one of four dimensions stays."""
    if len(x.shape) == 4:
        return x
    if count < 1:
        raise node.fault(f"{count} heads")
    batch, rows, width = x.shape
    return node.transpose(node.reshape(x, [batch, rows, count, width // count]), [0, 2, 1, 3])


def joined(node: Node, y: Tensor) -> Tensor:
    """Return y[B, H, L, E] as [B, L, H * E]."""
    batch, count, rows, width = y.shape
    return node.reshape(node.transpose(y, [0, 2, 1, 3]), [batch, rows, count * width])


def default_scale(node: Node, q: Tensor) -> float:
    """Return the node's scale, or one divided by the root of a head's width."""
    if node.given("scale") and node.get_float("scale"):
        return node.get_float("scale")
    width = q.shape[3].constant
    if not width:
        raise node.refuse("a head whose width is no number")
    return 1 / math.sqrt(width)


@converts("Attention")
def attention(node: Node) -> list[Tensor]:
    """Attention with masks, a window, a past that is joined, or keys of which some are padding."""
    flat = len(node.value(0).shape) == 3
    q = heads(node, node.x(0), node.get_int("q_num_heads", 0))
    k, v = (heads(node, node.x(i), node.get_int("kv_num_heads", 0)) for i in (1, 2))
    past = Dim.of(0)
    if node.has(4) != node.has(5):
        raise node.fault("past_key and past_value go together")
    if node.has(4):
        past = node.value(4).shape[2]
        k, v = (node.concat([node.x(i), x], 2) for i, x in ((4, k), (5, v)))
    y, each = attended(node, q, k, v, _scores(node, q, k, past))
    mode = node.get_int("qk_matmul_output_mode", 0)
    if not 0 <= mode < len(each):
        raise node.fault(f"qk_matmul_output_mode is {mode}")
    y = joined(node, y) if flat else y
    return [y, k, v, each[mode]][: len(node.proto.output)]


def _scores(node: Node, q: Tensor, k: Tensor, past: Dim) -> Scores:
    """Return how the node has scores masked."""
    rows, keys = q.shape[2], k.shape[2]
    padded = per_row(node, node.x(6)) if node.has(6) else None
    offset = number(node, past)
    if padded is not None and not node.has(4):
        offset = node.binary(nn.SubOp, padded, number(node, rows))
    frontier = Frontier.of(node, rows, keys, offset)
    allowed = frontier.causal(node) if node.get_int("is_causal", 0) else None
    window = node.get_int("left_window_size", -1), node.get_int("right_window_size", -1)
    allowed = both(node, allowed, frontier.window(node, *window))
    if padded is not None:
        allowed = both(node, allowed, node.compare("lt", frontier.keys, padded))
    added = None
    if node.has(3):
        mask = _wide_mask(node, node.x(3), keys)
        if mask.kind == BOOL:
            allowed = both(node, allowed, mask)
        else:
            added = node.cast(mask, q.kind)
    precision = node.get_int("softmax_precision", 0)
    masks = node.has(3) or padded is not None or window != (-1, -1)
    return Scores(
        default_scale(node, q),
        node.get_float("softcap", 0.0),
        allowed,
        added,
        masks,
        KINDS.get(precision),
    )


def _wide_mask(node: Node, mask: Tensor, keys: Dim) -> Tensor:
    """Return a mask for every key: there are none where it ends."""
    have = mask.shape[-1]
    if have == keys:
        return mask
    none = [0] * (len(mask.shape) - 1)
    lowest = 0 if mask.kind == BOOL else -math.inf
    return node.pad(mask, [*none, 0], [*none, keys - have], lowest)
