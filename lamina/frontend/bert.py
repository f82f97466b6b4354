"""The architecture bert: an encoder with learned positions and segments, norms last.

Devlin et al. 2019. Tokens of all sequences are rows of one matrix; attention alone tells the
sequences apart.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from xdsl.dialects.builtin import ModuleOp, f32, i32
from xdsl.ir import SSAValue

from lamina.dialects import nn
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents, tensor
from lamina.frontend.graph import Graph
from lamina.frontend.model import ModelConfig, Weights
from lamina.frontend.pooling import Pooling

_PREFIX: Final = "bert."
_BUFFERS: Final = ("embeddings.position_ids", "embeddings.token_type_ids")
_POOLER: Final = ("pooler.dense.weight", "pooler.dense.bias")
_HIDDEN: Final = float(np.finfo(np.float32).min)
"""What is added to the scores of a masked key: finite, so that a row of only such has a mean."""
_FEWEST: Final = 1e-9
_SHORTEST: Final = 1e-12
"""Lower bounds of divisors, as in sentence-transformers and in PyTorch's `normalize`."""


def build(config: ModelConfig, weights: Weights) -> ModuleOp:
    """Return the plain graph of a bert checkpoint.

    Inputs i32 [B, L]: `input_ids`, `attention_mask` (0 for padding), `token_type_ids`. Outputs
    f32: `last_hidden_state` [B, L, H] and, if `config` asks for a pooling, `sentence_embedding`
    [B, H]. Names may begin with `bert.` or not. Raises `FormatError` naming a tensor that is
    missing or has another shape than `config` says.
    """
    graph = Graph(weights)
    prefix = _PREFIX if f"{_PREFIX}embeddings.word_embeddings.weight" in weights else ""
    model = _Bert.begin(config, graph, prefix)
    x = model.embed()
    for layer in range(config.layers):
        x = model.layer(f"encoder/layer.{layer}", x)
    model.finish(x)
    return graph.finish(lambda name: name.removeprefix(prefix) in (*_BUFFERS, *_POOLER))


@dataclass(frozen=True)
class _Bert:
    config: ModelConfig
    graph: Graph
    prefix: str
    ids: SSAValue
    segments: SSAValue
    mask: SSAValue
    bias: SSAValue

    @staticmethod
    def begin(config: ModelConfig, graph: Graph, prefix: str) -> "_Bert":
        """Declare the inputs, and turn the mask into what is added to scores."""
        ids, mask, segments = (
            graph.input(name, i32, ["B", "L"])
            for name in ("input_ids", "attention_mask", "token_type_ids")
        )
        batch, length = extents(ids.type)
        with graph.at("/mask"):
            mask = graph.add(nn.CastOp(mask, f32), "mask")
            zero = graph.fill(0.0, mask)
            seen = graph.add(nn.CompareOp("ne", mask, zero))
            bias = graph.add(nn.SelectOp(seen, zero, graph.fill(_HIDDEN, mask)))
            shape = [batch, config.heads, length, length]
            bias = graph.add(nn.BroadcastOp(bias, [0, 3], shape), "bias")
        return _Bert(config, graph, prefix, ids, segments, mask, bias)

    def parameter(self, node: str, kind: str, *shape: int) -> SSAValue:
        """Return the tensor `kind` of `node`, a path, as f32."""
        return self.graph.parameter(f"{self.prefix}{node.replace('/', '.')}.{kind}", shape)

    def embed(self) -> SSAValue:
        """Return the normed sum of word, position and segment embeddings: f32 [B * L, H]."""
        config, graph = self.config, self.graph
        batch, length = extents(self.ids.type)
        words = self.looked_up("word", config.vocab_size, self.ids)
        with graph.at("/embeddings/position_embeddings"):
            places = graph.add(nn.IotaOp(0, tensor(i32, [length])))
        places = self.looked_up("position", config.context_length, places)
        segments = self.looked_up("token_type", config.token_types, self.segments)
        with graph.at("/embeddings"):
            x = graph.add(nn.AddOp(words, segments))
            x = graph.add(nn.AddOp(x, graph.broadcast(places, x, [1, 2])))
            x = graph.add(nn.ReshapeOp(x, [batch * length, config.hidden_size]))
        return self.norm(x, "embeddings/LayerNorm")

    def looked_up(self, kind: str, rows: int, ids: SSAValue) -> SSAValue:
        node, width = f"embeddings/{kind}_embeddings", self.config.hidden_size
        with self.graph.at(f"/{node}"):
            name = f"{self.prefix}{node.replace('/', '.')}.weight"
            table = self.graph.weight(name, (rows, width))
            return self.graph.add(nn.EmbeddingOp(table, ids, width))

    def layer(self, node: str, x: SSAValue) -> SSAValue:
        config, graph = self.config, self.graph
        width, between = config.hidden_size, config.intermediate_size
        h = self.attention(f"{node}/attention", x)
        h = self.linear(h, f"{node}/attention/output/dense", width)
        x = self.added(x, h, f"{node}/attention/output")
        h = self.linear(x, f"{node}/intermediate/dense", between)
        with graph.at(f"/{node}/intermediate"):
            h = graph.activate(config.activation, h)
        h = self.linear(h, f"{node}/output/dense", width)
        return self.added(x, h, f"{node}/output")

    def attention(self, node: str, x: SSAValue) -> SSAValue:
        """Return every token's mean of the values of its sequence: f32 [B * L, heads * D]."""
        config, graph = self.config, self.graph
        q, k, v = (self.projected(x, f"{node}/self", part) for part in ("query", "key", "value"))
        with graph.at(f"/{node}/self"):
            scores = graph.add(nn.DotGeneralOp(q, k, [(3, 3)], [(0, 0), (1, 1)]), "scores")
            scale = graph.fill(1 / math.sqrt(config.head_dim), scores)
            scores = graph.add(nn.MulOp(scores, scale))
            scores = graph.add(nn.AddOp(scores, self.bias))
            p = graph.add(nn.SoftmaxOp(scores, 3), "p")
            y = graph.add(nn.DotGeneralOp(p, v, [(3, 2)], [(0, 0), (1, 1)]))
            y = graph.add(nn.TransposeOp(y, [0, 2, 1, 3]))
            return graph.add(nn.ReshapeOp(y, [extents(x.type)[0], config.heads * config.head_dim]))

    def projected(self, x: SSAValue, node: str, part: str) -> SSAValue:
        """Return queries, keys or values by head: f32 [B, heads, L, D]."""
        config, graph = self.config, self.graph
        y = self.linear(x, f"{node}/{part}", config.heads * config.head_dim)
        shape = [*extents(self.ids.type), config.heads, config.head_dim]
        with graph.at(f"/{node}"):
            y = graph.add(nn.ReshapeOp(y, shape))
            return graph.add(nn.TransposeOp(y, [0, 2, 1, 3]), part[0])

    def added(self, x: SSAValue, h: SSAValue, node: str) -> SSAValue:
        with self.graph.at(f"/{node}"):
            x = self.graph.add(nn.AddOp(h, x))
        return self.norm(x, f"{node}/LayerNorm")

    def norm(self, x: SSAValue, node: str) -> SSAValue:
        width = self.config.hidden_size
        with self.graph.at(f"/{node}"):
            w, b = (self.parameter(node, kind, width) for kind in ("weight", "bias"))
            return self.graph.add(nn.LayerNormOp(x, w, b, self.config.norm_eps), "x")

    def linear(self, x: SSAValue, node: str, rows: int) -> SSAValue:
        columns = extents(x.type)[1].evaluate({})
        with self.graph.at(f"/{node}"):
            w = self.parameter(node, "weight", rows, columns)
            return self.graph.linear(x, w, self.parameter(node, "bias", rows))

    def finish(self, x: SSAValue) -> None:
        """Declare the outputs: x by sequence, and one vector for each."""
        shape: list[Dim | int] = [*extents(self.ids.type), self.config.hidden_size]
        with self.graph.at("/last_hidden_state"):
            x = self.graph.add(nn.ReshapeOp(x, shape), "last_hidden_state")
        self.graph.output("last_hidden_state", x)
        if (pooling := self.config.pooling) is not None:
            with self.graph.at("/pooling"):
                self.graph.output("sentence_embedding", self.pooled(x, pooling))

    def pooled(self, x: SSAValue, pooling: Pooling) -> SSAValue:
        y = self.mean(x) if pooling.mode == "mean" else self.first(x)
        if not pooling.normalize:
            return y
        graph = self.graph
        square = graph.add(nn.ReduceOp(graph.add(nn.MulOp(y, y)), "add", [1]))
        return self.divided(y, graph.add(nn.SqrtOp(square)), _SHORTEST)

    def mean(self, x: SSAValue) -> SSAValue:
        """Return the mean of the vectors that the mask shows: f32 [B, H]."""
        graph = self.graph
        shown = graph.add(nn.MulOp(x, graph.broadcast(self.mask, x, [0, 1])))
        total = graph.add(nn.ReduceOp(shown, "add", [1]))
        return self.divided(total, graph.add(nn.ReduceOp(self.mask, "add", [1])), _FEWEST)

    def first(self, x: SSAValue) -> SSAValue:
        """Return the vector of each sequence's first token: f32 [B, H]."""
        batch, _, width = extents(x.type)
        first: Sequence[Dim | int] = [batch, 1, width]
        x = self.graph.add(nn.SliceOp(x, [0, 0, 0], first))
        return self.graph.add(nn.ReshapeOp(x, [batch, width]))

    def divided(self, x: SSAValue, by: SSAValue, least: float) -> SSAValue:
        """Return x [B, H] divided by `by` [B], or by `least` where that is larger."""
        graph = self.graph
        by = graph.add(nn.MaxOp(by, graph.fill(least, by)))
        return graph.add(nn.DivOp(x, graph.broadcast(by, x, [0])))
