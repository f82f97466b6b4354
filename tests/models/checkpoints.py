"""Tiny checkpoints with odd sizes: settings, random weights, and how they are written down."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ggml_blocks
import gguf_writer
import ml_dtypes
import numpy as np
import numpy_gpt2
from numpy_llama import dequantized, from_gguf
from safetensors.numpy import save_file

Arrays = dict[str, np.ndarray]

HIDDEN, HEADS, BETWEEN, VOCAB, LAYERS = 96, 3, 200, 301, 2

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": VOCAB,
    "hidden_size": HIDDEN,
    "intermediate_size": BETWEEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": 1,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
}
GPT2: dict[str, Any] = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "vocab_size": VOCAB,
    "n_positions": 128,
    "n_embd": HIDDEN,
    "n_layer": LAYERS,
    "n_head": HEADS,
    "n_inner": BETWEEN,
}
BERT: dict[str, Any] = {
    "model_type": "bert",
    "architectures": ["BertModel"],
    "vocab_size": VOCAB,
    "hidden_size": HIDDEN,
    "intermediate_size": BETWEEN,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "max_position_embeddings": 64,
}
LINEAR = {"rope_type": "linear", "factor": 2.5}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}


class Random:
    """Random tensors: matrices that keep the size of what they multiply, norms around 1."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.arrays: Arrays = {}

    def matrix(self, name: str, *shape: int) -> None:
        deviation = shape[-1] ** -0.5
        self.arrays[name] = self.rng.normal(0, deviation, shape).astype(np.float32)

    def vector(self, name: str, size: int, around: float = 0.0) -> None:
        self.arrays[name] = (around + self.rng.normal(0, 0.1, size)).astype(np.float32)

    def linear(self, name: str, rows: int, columns: int, bias: bool = True) -> None:
        self.matrix(f"{name}.weight", rows, columns)
        if bias:
            self.vector(f"{name}.bias", rows)

    def norm(self, name: str, bias: bool = True) -> None:
        self.vector(f"{name}.weight", HIDDEN, 1.0)
        if bias:
            self.vector(f"{name}.bias", HIDDEN)


def llama(settings: Mapping[str, Any], seed: int = 0) -> Arrays:
    random = Random(seed)
    size = settings.get("head_dim") or HIDDEN // HEADS
    wide, narrow = HEADS * size, settings["num_key_value_heads"] * size
    attention, mlp = (bool(settings.get(key)) for key in ("attention_bias", "mlp_bias"))
    random.matrix("model.embed_tokens.weight", VOCAB, HIDDEN)
    for layer in range(LAYERS):
        at = f"model.layers.{layer}"
        random.norm(f"{at}.input_layernorm", bias=False)
        random.linear(f"{at}.self_attn.q_proj", wide, HIDDEN, attention)
        random.linear(f"{at}.self_attn.k_proj", narrow, HIDDEN, attention)
        random.linear(f"{at}.self_attn.v_proj", narrow, HIDDEN, attention)
        random.linear(f"{at}.self_attn.o_proj", HIDDEN, wide, attention)
        random.norm(f"{at}.post_attention_layernorm", bias=False)
        random.linear(f"{at}.mlp.gate_proj", BETWEEN, HIDDEN, mlp)
        random.linear(f"{at}.mlp.up_proj", BETWEEN, HIDDEN, mlp)
        random.linear(f"{at}.mlp.down_proj", HIDDEN, BETWEEN, mlp)
    random.norm("model.norm", bias=False)
    if not settings["tie_word_embeddings"]:
        random.matrix("lm_head.weight", VOCAB, HIDDEN)
    return random.arrays


def gpt2(prefix: str = "", seed: int = 1) -> Arrays:
    random = Random(seed)
    random.matrix("wte.weight", VOCAB, HIDDEN)
    random.matrix("wpe.weight", GPT2["n_positions"], HIDDEN)
    for layer in range(LAYERS):
        random.norm(f"h.{layer}.ln_1")
        random.norm(f"h.{layer}.ln_2")
        for name, rows, columns in (
            ("attn.c_attn", 3 * HIDDEN, HIDDEN),
            ("attn.c_proj", HIDDEN, HIDDEN),
            ("mlp.c_fc", BETWEEN, HIDDEN),
            ("mlp.c_proj", HIDDEN, BETWEEN),
        ):
            random.linear(f"h.{layer}.{name}", rows, columns)
            weight = f"h.{layer}.{name}.weight"
            random.arrays[weight] = np.ascontiguousarray(random.arrays[weight].T)
        random.arrays[f"h.{layer}.attn.bias"] = np.ones((1, 1, 8, 8), np.uint8)
        random.arrays[f"h.{layer}.attn.masked_bias"] = np.float32([-1e4])
    random.norm("ln_f")
    return {prefix + name: array for name, array in random.arrays.items()}


def bert(seed: int = 2) -> Arrays:
    random = Random(seed)
    for kind, rows in (("word", VOCAB), ("position", 64), ("token_type", 2)):
        random.matrix(f"embeddings.{kind}_embeddings.weight", rows, HIDDEN)
    random.norm("embeddings.LayerNorm")
    random.arrays["embeddings.position_ids"] = np.arange(64)[None]
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}"
        for part in ("query", "key", "value"):
            random.linear(f"{at}.attention.self.{part}", HIDDEN, HIDDEN)
        random.linear(f"{at}.attention.output.dense", HIDDEN, HIDDEN)
        random.norm(f"{at}.attention.output.LayerNorm")
        random.linear(f"{at}.intermediate.dense", BETWEEN, HIDDEN)
        random.linear(f"{at}.output.dense", HIDDEN, BETWEEN)
        random.norm(f"{at}.output.LayerNorm")
    random.linear("pooler.dense", HIDDEN, HIDDEN)
    return random.arrays


def save_folder(folder: Path, settings: Mapping[str, Any], arrays: Arrays) -> Path:
    """Write config.json and model.safetensors; return the folder."""
    (folder / "config.json").write_text(json.dumps(settings))
    save_file(arrays, folder / "model.safetensors")
    return folder


def save_mean_pooling(folder: Path) -> None:
    """Say, as sentence-transformers does, that the folder's vectors are averaged and normed."""
    base = "sentence_transformers.models"
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": f"{base}.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{base}.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": f"{base}.Normalize"},
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": HIDDEN, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))


def stored_rows(kind: str, rows: int, columns: int, rng: np.random.Generator) -> np.ndarray:
    """Random rows of a GGML type as bytes, of numbers about `columns ** -0.5` in size."""
    if kind in PLAIN:
        values = rng.normal(0, columns**-0.5, (rows, columns))
        return values.astype(PLAIN[kind]).view(np.uint8)
    return ggml_blocks.random_rows(kind, rows, columns, rng)


PLAIN = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}


@dataclass(frozen=True)
class GgufSizes:
    """The sizes of a llama in a GGUF file."""

    hidden: int = HIDDEN
    between: int = BETWEEN
    heads: int = HEADS
    kv_heads: int = 1
    layers: int = LAYERS

    @property
    def narrow(self) -> int:
        """The rows of k and v."""
        return self.hidden // self.heads * self.kv_heads

    @property
    def linears(self) -> Iterator[tuple[str, int, int]]:
        """The matrices of a layer: name, rows, columns."""
        yield from (("attn_q", self.hidden, self.hidden), ("attn_k", self.narrow, self.hidden))
        yield from (("attn_v", self.narrow, self.hidden), ("attn_output", self.hidden, self.hidden))
        yield from (("ffn_gate", self.between, self.hidden), ("ffn_up", self.between, self.hidden))
        yield "ffn_down", self.hidden, self.between

    @property
    def metadata(self) -> dict[str, object]:
        return {
            "general.architecture": "llama",
            "llama.vocab_size": VOCAB,
            "llama.context_length": 512,
            "llama.embedding_length": self.hidden,
            "llama.feed_forward_length": self.between,
            "llama.block_count": self.layers,
            "llama.attention.head_count": self.heads,
            "llama.attention.head_count_kv": self.kv_heads,
            "llama.attention.layer_norm_rms_epsilon": 1e-5,
        }

    @property
    def settings(self) -> dict[str, Any]:
        """What config.json would say of them."""
        return LLAMA | {
            "hidden_size": self.hidden,
            "intermediate_size": self.between,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
        }


ODD = GgufSizes()
SUPER = GgufSizes(hidden=256, between=512, heads=4, kv_heads=2)
"""Sizes of which every row is whole super-blocks."""
GGUF_METADATA = ODD.metadata
MIXED = {
    **{"token_embd": "q6_k", "attn_k": "q5_0", "attn_v": "q6_k", "attn_output": "q5_k"},
    **{"ffn_up": "q8_0", "ffn_down": "q6_k"},
}
"""A mix of types as converters make it, by node; the other nodes are q4_k."""


def gguf_llama(
    kind: str, *, rope_freqs: bool = False, sizes: GgufSizes = ODD
) -> dict[str, gguf_writer.Tensor]:
    """A llama's tensors as a converter writes them: norms in f32, rows of no whole blocks in f16.

    `kind` is a type of GGML, or "mixed".
    """
    rng = np.random.default_rng(3)
    found: dict[str, gguf_writer.Tensor] = {}

    def matrix(name: str, rows: int, columns: int) -> None:
        own = MIXED.get(name.split(".")[-2], "q4_k") if kind == "mixed" else kind
        own = own if own in PLAIN or columns % ggml_blocks.SIZES[own][0] == 0 else "f16"
        found[name] = (own, (rows, columns), stored_rows(own, rows, columns, rng).tobytes())

    def norm(name: str) -> None:
        found[name] = gguf_writer.f32(rng.normal(1, 0.1, sizes.hidden))

    matrix("token_embd.weight", VOCAB, sizes.hidden)
    for layer in range(sizes.layers):
        norm(f"blk.{layer}.attn_norm.weight")
        norm(f"blk.{layer}.ffn_norm.weight")
        for name, rows, columns in sizes.linears:
            matrix(f"blk.{layer}.{name}.weight", rows, columns)
    norm("output_norm.weight")
    if rope_freqs:
        divisors = rng.uniform(1, 8, sizes.hidden // sizes.heads // 2)
        found["rope_freqs.weight"] = gguf_writer.f32(divisors)
    return found


GGUF_GPT2: dict[str, object] = {
    "general.architecture": "gpt2",
    "gpt2.context_length": GPT2["n_positions"],
    "gpt2.embedding_length": HIDDEN,
    "gpt2.feed_forward_length": BETWEEN,
    "gpt2.block_count": LAYERS,
    "gpt2.attention.head_count": HEADS,
    "gpt2.attention.layer_norm_epsilon": 1e-5,
    "tokenizer.ggml.tokens": [f"t{n}" for n in range(VOCAB)],
}


def gguf_gpt2(kind: str, *, tied: bool = True) -> dict[str, gguf_writer.Tensor]:
    """A gpt2's tensors as a converter writes them: vectors and positions in f32."""
    rng = np.random.default_rng(4)
    found: dict[str, gguf_writer.Tensor] = {}

    def matrix(name: str, rows: int, columns: int) -> None:
        own = kind if kind in PLAIN or columns % 32 == 0 else "f16"
        raw = stored_rows(own, rows, columns, rng).tobytes()
        found[f"{name}.weight"] = (own, (rows, columns), raw)

    def vector(name: str, size: int, around: float = 0.0) -> None:
        found[name] = gguf_writer.f32(rng.normal(around, 0.1, size))

    matrix("token_embd", VOCAB, HIDDEN)
    positions = rng.normal(0, 0.1, (GPT2["n_positions"], HIDDEN))
    found["position_embd.weight"] = gguf_writer.f32(positions)
    for layer in range(LAYERS):
        for name, rows, columns in (
            ("attn_qkv", 3 * HIDDEN, HIDDEN),
            ("attn_output", HIDDEN, HIDDEN),
            ("ffn_up", BETWEEN, HIDDEN),
            ("ffn_down", HIDDEN, BETWEEN),
        ):
            matrix(f"blk.{layer}.{name}", rows, columns)
            vector(f"blk.{layer}.{name}.bias", rows)
    for norm in (
        "output_norm",
        *(f"blk.{n}.{m}_norm" for n in range(LAYERS) for m in ("attn", "ffn")),
    ):
        vector(f"{norm}.weight", HIDDEN, 1.0)
        vector(f"{norm}.bias", HIDDEN)
    if not tied:
        matrix("output", VOCAB, HIDDEN)
    return found


@dataclass(frozen=True)
class Checkpoint:
    """A tiny model, and how to write it to a folder: returns the path to read."""

    kind: str
    settings: dict[str, Any]
    write: Callable[[Path], Path]
    arrays: Arrays
    """What the NumPy model of `kind` takes."""


def of_llama(dtype: str = "f32", **changes: Any) -> Checkpoint:
    settings = LLAMA | changes
    arrays = {name: array.astype(PLAIN[dtype]) for name, array in llama(settings).items()}
    return Checkpoint("llama", settings, lambda to: save_folder(to, settings, arrays), arrays)


def of_gpt2(prefix: str = "") -> Checkpoint:
    arrays = gpt2(prefix)
    return Checkpoint("gpt2", GPT2, lambda to: save_folder(to, GPT2, arrays), arrays)


def of_bert() -> Checkpoint:
    arrays = bert()

    def write(folder: Path) -> Path:
        save_mean_pooling(folder)
        return save_folder(folder, BERT, arrays)

    return Checkpoint("bert", BERT, write, arrays)


def numbers_of(tensors: Mapping[str, gguf_writer.Tensor]) -> Arrays:
    """The numbers behind a GGUF file's tensors."""
    return {
        name: dequantized(own, np.frombuffer(raw, np.uint8).reshape(shape[0], -1)).reshape(shape)
        for name, (own, shape, raw) in tensors.items()
    }


def save_gguf(
    metadata: Mapping[str, object], tensors: Mapping[str, gguf_writer.Tensor]
) -> Callable[[Path], Path]:
    """Return what writes the file to a folder and returns its path."""

    def write(folder: Path) -> Path:
        path = folder / "model.gguf"
        path.write_bytes(gguf_writer.gguf_bytes(metadata, tensors))
        return path

    return write


def of_gguf(kind: str, *, rope_freqs: bool = False, sizes: GgufSizes = ODD) -> Checkpoint:
    tensors = gguf_llama(kind, rope_freqs=rope_freqs, sizes=sizes)
    arrays = from_gguf(numbers_of(tensors), sizes.heads, sizes.kv_heads)
    return Checkpoint("llama", sizes.settings, save_gguf(sizes.metadata, tensors), arrays)


def of_gguf_gpt2(kind: str, *, tied: bool = True) -> Checkpoint:
    tensors = gguf_gpt2(kind, tied=tied)
    arrays = numpy_gpt2.from_gguf(numbers_of(tensors))
    return Checkpoint("gpt2", GPT2, save_gguf(GGUF_GPT2, tensors), arrays)


CHECKPOINTS: dict[str, Callable[[], Checkpoint]] = {
    "llama": of_llama,
    "llama-f16": lambda: of_llama("f16"),
    "llama-bf16": lambda: of_llama("bf16"),
    "llama-untied": lambda: of_llama(
        tie_word_embeddings=False, attention_bias=True, mlp_bias=True, rope_theta=5e5
    ),
    "llama-wide-heads": lambda: of_llama(head_dim=48, num_key_value_heads=3),
    "llama-linear": lambda: of_llama(rope_scaling=LINEAR),
    "llama-llama3": lambda: of_llama(rope_scaling=LLAMA3),
    **{
        f"gguf-{kind}": lambda kind=kind: of_gguf(kind)
        for kind in ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1")
    },
    **{
        f"gguf-{kind}": lambda kind=kind: of_gguf(kind, sizes=SUPER)
        for kind in ("q4_k", "q5_k", "q6_k", "mixed")
    },
    "gguf-rope-freqs": lambda: of_gguf("q4_1", rope_freqs=True),
    "gpt2": of_gpt2,
    "gguf-gpt2-f16": lambda: of_gguf_gpt2("f16"),
    "gguf-gpt2-q8_0": lambda: of_gguf_gpt2("q8_0", tied=False),
    "gpt2-prefix": lambda: of_gpt2("transformer."),
    "bert": of_bert,
}
ENCODERS = ("bert",)
DECODERS = [name for name in CHECKPOINTS if name not in ENCODERS]
