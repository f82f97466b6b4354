"""The architecture gpt2: layer norms first, learned positions, biases everywhere.

Radford et al. 2019. q, k and v are stored as one matrix. A Hugging Face folder has matrices as
[in, out], a GGUF file as [out, in].
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
_GGUF_NAMES: Final[Mapping[str, str]] = {
    "wte": "token_embd",
    "wpe": "position_embd",
    "ln_f": "output_norm",
    "lm_head": "output",
    "ln_1": "attn_norm",
    "attn/c_attn": "attn_qkv",
    "attn/c_proj": "attn_output",
    "ln_2": "ffn_norm",
    "mlp/c_fc": "ffn_up",
    "mlp/c_proj": "ffn_down",
}
"""What GGUF calls the nodes of the model or of a layer."""


def build(config: ModelConfig, weights: Weights) -> ModuleOp:
    """Return the plain graph of a gpt2 checkpoint over a ragged batch: logits f32 [R, vocab].

    A folder's names may begin with `transformer.` or not. Raises `FormatError` naming a tensor that
    is missing or has another shape than `config` says, `UnsupportedError` for one whose type a
    graph cannot take.
    """
    if config.heads * config.head_dim != config.hidden_size:
        raise FormatError(
            f"{weights.where}: {config.heads} heads of {config.head_dim} elements do not make "
            f"the hidden size {config.hidden_size}"
        )
    model = _Gpt2.begin(config, weights)
    x = model.embed()
    for layer in range(config.layers):
        x = model.layer(layer, x)
    model.head(x)
    return model.graph.finish(model.ignores)


@dataclass(frozen=True)
class _Gpt2:
    config: ModelConfig
    graph: Graph
    decoder: Decoder
    prefix: str
    gguf: bool

    @staticmethod
    def begin(config: ModelConfig, weights: Weights) -> "_Gpt2":
        graph = Graph(weights)
        prefix = _PREFIX if f"{_PREFIX}wte.weight" in weights else ""
        gguf = "general.architecture" in config.metadata
        return _Gpt2(config, graph, Decoder.begin(graph, config), prefix, gguf)

    def name(self, node: str, kind: str) -> str:
        """Return what the file calls the tensor `kind` of `node`, a path such as `h.0/ln_1`."""
        if not self.gguf:
            prefix = "" if node == "lm_head" else self.prefix
            return f"{prefix}{node.replace('/', '.')}.{kind}"
        layer, _, inner = node.partition("/")
        if not inner:
            return f"{_GGUF_NAMES[node]}.{kind}"
        return f"blk.{layer.removeprefix('h.')}.{_GGUF_NAMES[inner]}.{kind}"

    def ignores(self, name: str) -> bool:
        """Return whether a tensor may be left unused: a buffer, or a copy of the embedding."""
        tied = self.config.tied_embeddings and name == "lm_head.weight"
        return tied or name.endswith(_BUFFERS)

    def embed(self) -> SSAValue:
        config, graph, decoder = self.config, self.graph, self.decoder
        width = config.hidden_size
        with graph.at("/wte"):
            table = graph.weight(self.name("wte", "weight"), (config.vocab_size, width))
            x = graph.add(nn.EmbeddingOp(table, decoder.tokens, width))
        with graph.at("/wpe"):
            table = graph.weight(self.name("wpe", "weight"), (config.context_length, width))
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
        """Return q, k or v [T, heads, D]: x times its third of what `node` holds."""
        graph, width = self.graph, self.config.hidden_size
        start, wide = _PARTS[part] * width, len(_PARTS) * width
        with graph.at(f"/{node}"):
            shape, axis = ((wide, width), 0) if self.gguf else ((width, wide), 1)
            w = graph.part(self.name(node, "weight"), shape, start, width, axis=axis)
            bias = graph.part(self.name(node, "bias"), (wide,), start, width)
            y = graph.linear(x, w, bias, k=1 - axis)
        with graph.at(f"/{node.rpartition('/')[0]}"):
            y = self.decoder.heads(y, self.config.heads)
            y.name_hint = part
            return y

    def norm(self, x: SSAValue, node: str) -> SSAValue:
        graph, shape = self.graph, (self.config.hidden_size,)
        with graph.at(f"/{node}"):
            w, b = (graph.parameter(self.name(node, kind), shape) for kind in ("weight", "bias"))
            return graph.add(nn.LayerNormOp(x, w, b, self.config.norm_eps), "h")

    def linear(self, x: SSAValue, node: str, columns: int, rows: int) -> SSAValue:
        graph, shape = self.graph, (columns, rows)
        with graph.at(f"/{node}"):
            w = graph.parameter(self.name(node, "weight"), shape[::-1] if self.gguf else shape)
            bias = graph.parameter(self.name(node, "bias"), (rows,))
            return graph.linear(x, w, bias, k=int(self.gguf))

    def head(self, x: SSAValue) -> None:
        config, graph = self.config, self.graph
        with graph.at("/rows"):
            x = self.decoder.wanted(x)
        x = self.norm(x, "ln_f")
        name = self.name("wte" if config.tied_embeddings else "lm_head", "weight")
        with graph.at("/lm_head"):
            w = graph.parameter(name, (config.vocab_size, config.hidden_size))
            graph.output("logits", graph.linear(x, w))
