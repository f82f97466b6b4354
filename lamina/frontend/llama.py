"""The architecture llama: RMS norms, rotary positions, grouped queries, a gated MLP.

Touvron et al. 2023. The stored q and k rows turn half-split pairs in a Hugging Face folder and
adjacent pairs in GGUF.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from lamina.dialects import nn
from lamina.dialects.tensors import extents
from lamina.errors import FormatError, UnsupportedError
from lamina.frontend.decoder import Decoder
from lamina.frontend.graph import Graph
from lamina.frontend.model import ModelConfig, Weights

_GGUF_NAMES: Final[Mapping[str, str]] = {
    "embed_tokens": "token_embd",
    "norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "self_attn/q_proj": "attn_q",
    "self_attn/k_proj": "attn_k",
    "self_attn/v_proj": "attn_v",
    "self_attn/o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp/gate_proj": "ffn_gate",
    "mlp/up_proj": "ffn_up",
    "mlp/down_proj": "ffn_down",
}
"""What GGUF calls the nodes of the model or of a layer."""
_ROPE_DIVISORS: Final = "rope_freqs.weight"
_WIDEST: Final = 2048
"""Elements of a head whose angles a constant of the graph can list."""
_BUFFERS: Final = (".rotary_emb.inv_freq",)


def build(config: ModelConfig, weights: Weights) -> ModuleOp:
    """Return the plain graph of a llama checkpoint over a ragged batch: logits f32 [R, vocab].

    Raises `FormatError` naming a tensor that is missing or has another shape than `config` says,
    `UnsupportedError` for one whose type a graph cannot take.
    """
    model = _Llama.begin(config, weights)
    x = model.embed()
    rotation = model.decoder.rotations(model.frequencies())
    for layer in range(config.layers):
        x = model.layer(layer, x, rotation)
    model.head(x)
    return model.graph.finish(model.ignores)


@dataclass(frozen=True)
class _Llama:
    config: ModelConfig
    graph: Graph
    decoder: Decoder
    gguf: bool

    @staticmethod
    def begin(config: ModelConfig, weights: Weights) -> "_Llama":
        graph = Graph(weights)
        gguf = "general.architecture" in config.metadata
        return _Llama(config, graph, Decoder.begin(graph, config), gguf)

    def name(self, node: str, layer: int | None) -> str:
        """Return what the file calls the tensors of `node`, without `.weight` or `.bias`."""
        if self.gguf:
            return _GGUF_NAMES[node] if layer is None else f"blk.{layer}.{_GGUF_NAMES[node]}"
        if node == "lm_head":
            return node
        return f"model.{_path(node, layer)}".replace("/", ".")

    def ignores(self, name: str) -> bool:
        """Return whether a tensor may be left unused: a buffer, or a copy of the embedding."""
        tied = self.config.tied_embeddings and name == "lm_head.weight"
        return tied or name.endswith(_BUFFERS)

    def embed(self) -> SSAValue:
        config, graph = self.config, self.graph
        with graph.at("/embed_tokens"):
            shape = (config.vocab_size, config.hidden_size)
            table = graph.weight(f"{self.name('embed_tokens', None)}.weight", shape)
            ids = self.decoder.tokens
            return graph.add(nn.EmbeddingOp(table, ids, config.hidden_size), "x")

    def frequencies(self) -> SSAValue:
        """Return the angle of each pair a position: f32 [R / 2]."""
        graph, rope = self.graph, self.config.rope
        if rope is None or rope.dims > _WIDEST:
            raise UnsupportedError(
                f"{graph.weights.where}: a llama needs rotary positions of at most {_WIDEST} "
                f"elements, got {rope}"
            )
        with graph.at("/rotary_emb"), np.errstate(all="ignore"):
            values = rope.inverse_frequencies().astype(np.float32)
            if not np.isfinite(values).all():
                raise FormatError(f"{graph.weights.where}: {rope} turns by infinite angles")
            plain = graph.listed(values)
            if _ROPE_DIVISORS not in graph.weights:
                return plain
            divisors = graph.parameter(_ROPE_DIVISORS, (rope.dims // 2,))
            return graph.add(nn.DivOp(plain, divisors))

    def layer(self, layer: int, x: SSAValue, rotation: tuple[SSAValue, SSAValue]) -> SSAValue:
        config, graph = self.config, self.graph
        h = self.norm(x, "input_layernorm", layer)
        width, kv_width = config.heads * config.head_dim, config.kv_heads * config.head_dim
        q = self.linear(h, "self_attn/q_proj", layer, width)
        k = self.linear(h, "self_attn/k_proj", layer, kv_width)
        v = self.linear(h, "self_attn/v_proj", layer, kv_width)
        with graph.at(f"/{_path('self_attn', layer)}"):
            q = self.turn(self.decoder.heads(q, config.heads), rotation, "q")
            k = self.turn(self.decoder.heads(k, config.kv_heads), rotation, "k")
            v = self.decoder.heads(v, config.kv_heads)
            h = self.decoder.attention(layer, q, k, v)
        h = self.linear(h, "self_attn/o_proj", layer, config.hidden_size)
        x = self.residual(x, h, layer)
        return self.residual(x, self.mlp(x, layer), layer)

    def mlp(self, x: SSAValue, layer: int) -> SSAValue:
        config, graph = self.config, self.graph
        h = self.norm(x, "post_attention_layernorm", layer)
        gate = self.linear(h, "mlp/gate_proj", layer, config.intermediate_size)
        up = self.linear(h, "mlp/up_proj", layer, config.intermediate_size)
        with graph.at(f"/{_path('mlp', layer)}"):
            h = graph.add(nn.MulOp(graph.activate(config.activation, gate), up))
        return self.linear(h, "mlp/down_proj", layer, config.hidden_size)

    def turn(self, x: SSAValue, rotation: tuple[SSAValue, SSAValue], hint: str) -> SSAValue:
        rope = self.config.rope
        adjacent = rope is not None and rope.pairs == "adjacent"
        return self.graph.add(nn.RopeOp(x, *rotation, interleaved=adjacent), hint)

    def norm(self, x: SSAValue, node: str, layer: int | None) -> SSAValue:
        config, graph = self.config, self.graph
        with graph.at(f"/{_path(node, layer)}"):
            w = graph.parameter(f"{self.name(node, layer)}.weight", (config.hidden_size,))
            return graph.add(nn.RmsNormOp(x, w, config.norm_eps), "h")

    def linear(self, x: SSAValue, node: str, layer: int, rows: int) -> SSAValue:
        graph, name = self.graph, self.name(node, layer)
        columns = extents(x.type)[1].evaluate({})
        with graph.at(f"/{_path(node, layer)}"):
            w = graph.parameter(f"{name}.weight", (rows, columns))
            biased = self.biased(node, f"{name}.bias")
            bias = graph.parameter(f"{name}.bias", (rows,)) if biased else None
            return graph.linear(x, w, bias)

    def biased(self, node: str, bias: str) -> bool:
        """Return whether a linear has a bias: a folder's settings say so, GGUF just has it."""
        if self.gguf:
            return bias in self.graph.weights
        attention = node.startswith("self_attn/")
        return self.config.attention_bias if attention else self.config.mlp_bias

    def residual(self, x: SSAValue, h: SSAValue, layer: int) -> SSAValue:
        with self.graph.at(f"/layers.{layer}"):
            return self.graph.add(nn.AddOp(x, h), "x")

    def head(self, x: SSAValue) -> None:
        config, graph = self.config, self.graph
        with graph.at("/rows"):
            x = self.decoder.wanted(x)
        x = self.norm(x, "norm", None)
        with graph.at("/lm_head"):
            node = "embed_tokens" if config.tied_embeddings else "lm_head"
            name = f"{self.name(node, None)}.weight"
            w = graph.parameter(name, (config.vocab_size, config.hidden_size))
            logits = graph.linear(x, w)
        graph.output("logits", logits)


def _path(node: str, layer: int | None) -> str:
    return node if layer is None else f"layers.{layer}/{node}"
