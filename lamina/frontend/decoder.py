"""What every decoder's graph shares: the ragged batch, attention over pages, rows of logits."""

import math
from dataclasses import dataclass

from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from lamina.dialects import cache, nn
from lamina.dialects.cache import PagesType
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents, tensor
from lamina.frontend.graph import Graph
from lamina.frontend.model import ModelConfig

PAGE = 64
"""Positions in a page of a pool: what is read in one stream, and scored at once."""

_INPUTS: dict[str, tuple[str, ...]] = {
    "tokens": ("T",),
    "positions": ("T",),
    "query_start": ("S + 1",),
    "table": ("S", "B"),
    "work": ("W", "2"),
    "rows": ("R",),
}


@dataclass(frozen=True)
class Decoder:
    """A ragged batch of T tokens of S sequences, as arguments of `@forward`, all i32.

    `sequence` is the sequence of each token, and `visible` [T, heads of a pool, queries of each,
    B * PAGE] tells which keys a token may see.
    """

    graph: Graph
    config: ModelConfig
    tokens: SSAValue
    positions: SSAValue
    table: SSAValue
    rows: SSAValue
    sequence: SSAValue
    visible: SSAValue

    @staticmethod
    def begin(graph: Graph, config: ModelConfig) -> "Decoder":
        """Declare the inputs of a decoder of `config`."""
        inputs = {name: graph.input(name, i32, dims, name) for name, dims in _INPUTS.items()}
        positions, table = inputs["positions"], inputs["table"]
        tokens = Dim.symbol("T")
        with graph.at("/batch"):
            sequence = graph.add(cache.SequenceOp(inputs["query_start"], tokens), "sequence")
            length = extents(table.type)[1] * PAGE
            groups = config.heads // config.kv_heads
            shape = [tokens, config.kv_heads, groups, length]
            place = graph.add(nn.IotaOp(0, tensor(i32, [length])))
            place = graph.add(nn.BroadcastOp(place, [3], shape))
            own = graph.add(nn.BroadcastOp(positions, [0], shape))
            visible = graph.add(nn.CompareOp("le", place, own), "visible")
        return Decoder(
            graph,
            config,
            inputs["tokens"],
            positions,
            table,
            inputs["rows"],
            sequence,
            visible,
        )

    def heads(self, x: SSAValue, count: int) -> SSAValue:
        """Return x [T, count * D] as [T, count, D]."""
        shape = [extents(x.type)[0], count, self.config.head_dim]
        return self.graph.add(nn.ReshapeOp(x, shape))

    def attention(self, layer: int, q: SSAValue, k: SSAValue, v: SSAValue) -> SSAValue:
        """Return what q [T, H, D] sees of the pages with k and v [T, G, D] put in: [T, H * D].

        The pools of `layer` become states.
        """
        graph, config = self.graph, self.config
        keys = self._cached(f"k.{layer}", k)
        values = self._cached(f"v.{layer}", v)
        tokens, size = extents(q.type)[0], config.head_dim
        groups = config.heads // config.kv_heads
        q = graph.add(nn.ReshapeOp(q, [tokens, config.kv_heads, groups, size]))
        scores = graph.add(nn.DotGeneralOp(q, keys, [(3, 3)], [(0, 0), (1, 2)]), "scores")
        scores = graph.add(nn.MulOp(scores, graph.fill(1 / math.sqrt(size), scores)))
        hidden = graph.fill(-math.inf, scores)
        scores = graph.add(nn.SelectOp(self.visible, scores, hidden))
        p = graph.add(nn.SoftmaxOp(scores, 3), "p")
        y = graph.add(nn.DotGeneralOp(p, values, [(3, 1)], [(0, 0), (1, 2)]))
        return graph.add(nn.ReshapeOp(y, [tokens, config.heads * size]))

    def rotations(self, frequencies: SSAValue) -> tuple[SSAValue, SSAValue]:
        """Return cos and sin f32 [T, R / 2] of positions times `frequencies` f32 [R / 2]."""
        graph, half = self.graph, extents(frequencies.type)[0]
        with graph.at("/rotary_emb"):
            places = graph.add(nn.CastOp(self.positions, f32))
            shape = [extents(places.type)[0], half]
            places = graph.add(nn.BroadcastOp(places, [0], shape))
            turns = graph.broadcast(frequencies, places, [1])
            angles = graph.add(nn.MulOp(places, turns), "angles")
            return graph.add(nn.CosOp(angles), "cos"), graph.add(nn.SinOp(angles), "sin")

    def wanted(self, x: SSAValue) -> SSAValue:
        """Return the rows of x [T, N] whose logits are asked for: [R, N]."""
        return self.graph.add(nn.GatherOp(x, self.rows, 0))

    def _cached(self, state: str, x: SSAValue) -> SSAValue:
        graph, config = self.graph, self.config
        pages = PagesType.of(f32, "pages", config.kv_heads, PAGE, config.head_dim, 0)
        place = (self.positions, self.sequence, self.table)
        pool = graph.add(cache.WriteOp(graph.state(state, pages), x, *place), state)
        graph.update(state, pool)
        return graph.add(cache.ReadOp(pool, *place))
