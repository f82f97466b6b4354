"""The architecture gpt2: layer norms first, learned positions, biases everywhere.

Radford et al. 2019. Matrices are stored [in, out], and q, k and v as one, side by side.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from lamina.dialects import nn
from lamina.errors import FormatError
from lamina.frontend.decoder import Decoder
from lamina.frontend.graph import Graph
from lamina.frontend.model import ModelConfig, Weights

_PREFIX: Final = "transformer."
_BUFFERS: Final = (".attn.bias", ".attn.masked_bias")
_PARTS: Final[Mapping[str, int]] = {"q": 0, "k": 1, "v": 2}


def build(config: ModelConfig, weights: Weights) -> ModuleOp:
    """Return the plain graph of a gpt2 checkpoint over a ragged batch: logits f32 [R, vocab].

    Names may begin with `transformer.` or not. Raises `FormatError` naming a tensor that is
    missing or has another shape than `config` says.
    """
    if config.heads * config.head_dim != config.hidden_size:
        raise FormatError(
            f"{weights.where}: {config.heads} heads of {config.head_dim} elements do not make "
            f"the hidden size {config.hidden_size}"
        )
    graph = Graph(weights)
    prefix = _PREFIX if f"{_PREFIX}wte.weight" in weights else ""
    model = _Gpt2(config, graph, Decoder.begin(graph, config), prefix)
    x = model.embed()
    for layer in range(config.layers):
        x = model.layer(layer, x)
    model.head(x)
    return graph.finish(model.ignores)


@dataclass(frozen=True)
class _Gpt2:
    config: ModelConfig
    graph: Graph
    decoder: Decoder
    prefix: str

    def parameter(self, node: str, kind: str, *shape: int) -> SSAValue:
        """Return the tensor `kind` of `node`, a path, as f32."""
        return self.graph.parameter(f"{self.prefix}{node.replace('/', '.')}.{kind}", shape)

    def ignores(self, name: str) -> bool:
        """Return whether a tensor may be left unused: a buffer, or a copy of the embedding."""
        tied = self.config.tied_embeddings and name == "lm_head.weight"
        return tied or name.endswith(_BUFFERS)

    def embed(self) -> SSAValue:
        config, graph, decoder = self.config, self.graph, self.decoder
        width = config.hidden_size
        with graph.at("/wte"):
            table = graph.weight(f"{self.prefix}wte.weight", (config.vocab_size, width))
            x = graph.add(nn.EmbeddingOp(table, decoder.tokens, width))
        with graph.at("/wpe"):
            table = graph.weight(f"{self.prefix}wpe.weight", (config.context_length, width))
            places = graph.add(nn.EmbeddingOp(table, decoder.positions, width))
            return graph.add(nn.AddOp(x, places), "x")

    def layer(self, layer: int, x: SSAValue) -> SSAValue:
        graph, width, node = self.graph, self.config.hidden_size, f"h.{layer}"
        h = self.norm(x, f"{node}/ln_1")
        q, k, v = (self.projected(h, f"{node}/attn/c_attn", part) for part in _PARTS)
        with graph.at(f"/{node}/attn"):
            h = self.decoder.attention(layer, q, k, v)
        h = self.linear(h, f"{node}/attn/c_proj", width, width)
        with graph.at(f"/{node}"):
            x = graph.add(nn.AddOp(x, h), "x")
        h = self.norm(x, f"{node}/ln_2")
        h = self.linear(h, f"{node}/mlp/c_fc", width, self.config.intermediate_size)
        with graph.at(f"/{node}/mlp/act"):
            h = graph.activate(self.config.activation, h)
        h = self.linear(h, f"{node}/mlp/c_proj", self.config.intermediate_size, width)
        with graph.at(f"/{node}"):
            return graph.add(nn.AddOp(x, h), "x")

    def projected(self, x: SSAValue, node: str, part: str) -> SSAValue:
        """Return q, k or v [T, heads, D]: x times its third of the columns of `node`."""
        graph, width = self.graph, self.config.hidden_size
        start = _PARTS[part] * width
        with graph.at(f"/{node}"):
            w = self.parameter(node, "weight", width, len(_PARTS) * width)
            w = graph.add(nn.SliceOp(w, [0, start], [width, width]))
            bias = self.parameter(node, "bias", len(_PARTS) * width)
            bias = graph.add(nn.SliceOp(bias, [start], [width]))
            y = graph.linear(x, w, bias, k=0)
        with graph.at(f"/{node.rpartition('/')[0]}"):
            y = self.decoder.heads(y, self.config.heads)
            y.name_hint = part
            return y

    def norm(self, x: SSAValue, node: str) -> SSAValue:
        width = self.config.hidden_size
        with self.graph.at(f"/{node}"):
            w, b = (self.parameter(node, kind, width) for kind in ("weight", "bias"))
            return self.graph.add(nn.LayerNormOp(x, w, b, self.config.norm_eps), "h")

    def linear(self, x: SSAValue, node: str, columns: int, rows: int) -> SSAValue:
        with self.graph.at(f"/{node}"):
            w = self.parameter(node, "weight", columns, rows)
            return self.graph.linear(x, w, self.parameter(node, "bias", rows), k=0)

    def head(self, x: SSAValue) -> None:
        config, graph = self.config, self.graph
        with graph.at("/rows"):
            x = self.decoder.wanted(x)
        x = self.norm(x, "ln_f")
        name = f"{self.prefix}wte.weight" if config.tied_embeddings else "lm_head.weight"
        with graph.at("/lm_head"):
            w = graph.parameter(name, (config.vocab_size, config.hidden_size))
            graph.output("logits", graph.linear(x, w))
