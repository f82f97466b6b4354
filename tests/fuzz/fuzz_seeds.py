"""The smallest valid files that each parser takes, made by code: what fuzzing starts from."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import gguf_writer as gguf
import numpy as np
from safetensors.numpy import save

import lamina
from lamina.compiler import compile_to_file
from lamina.frontend.gguf_tokenizer import tokenizer_from_gguf
from lamina.frontend.model import Model, ModelConfig, Weight, Weights
from lamina.frontend.rope import LinearScaling, Rope

SEPARATOR = b"\n\x1e\n"
"""Stands between the files of an input that is several of them."""

HIDDEN, VOCAB = 8, 6
KEY = "tokenizer.ggml."
TOKENIZER = {
    f"{KEY}model": "gpt2",
    f"{KEY}pre": "gpt-2",
    f"{KEY}tokens": ["a", "b", "ab", "<end>", "<mark>", "c"],
    f"{KEY}token_type": np.array([1, 1, 1, 3, 4, 1], np.int32),
    f"{KEY}merges": ["a b"],
    f"{KEY}bos_token_id": 3,
    f"{KEY}eos_token_id": 3,
    "tokenizer.chat_template": "{{ messages[0].content }}",
}
SENTENCEPIECE = {
    f"{KEY}model": "llama",
    f"{KEY}tokens": ["<unk>", "<s>", "</s>", "▁", "a", "▁a"],
    f"{KEY}token_type": np.array([2, 3, 3, 1, 1, 1], np.int32),
    f"{KEY}scores": np.array([0, 0, 0, -9, -9, -1], np.float32),
}
SETTINGS = {
    "general.architecture": "llama",
    "llama.block_count": 1,
    "llama.context_length": 64,
    "llama.embedding_length": HIDDEN,
    "llama.feed_forward_length": HIDDEN,
    "llama.attention.head_count": 2,
    "llama.attention.head_count_kv": 1,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "llama.vocab_size": VOCAB,
}
SHAPES = {
    "input_layernorm": (HIDDEN,),
    "self_attn.q_proj": (HIDDEN, HIDDEN),
    "self_attn.k_proj": (HIDDEN // 2, HIDDEN),
    "self_attn.v_proj": (HIDDEN // 2, HIDDEN),
    "self_attn.o_proj": (HIDDEN, HIDDEN),
    "post_attention_layernorm": (HIDDEN,),
    "mlp.gate_proj": (HIDDEN, HIDDEN),
    "mlp.up_proj": (HIDDEN, HIDDEN),
    "mlp.down_proj": (HIDDEN, HIDDEN),
}
GGUF_NAMES = dict(
    zip(
        SHAPES,
        "attn_norm attn_q attn_k attn_v attn_output ffn_norm ffn_gate ffn_up ffn_down".split(),
        strict=True,
    )
)
CONFIGS = {
    "llama": {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "vocab_size": VOCAB,
        "hidden_size": HIDDEN,
        "intermediate_size": HIDDEN,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 64,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
        "tie_word_embeddings": True,
        "layer_types": ["full_attention"],
        "rope_scaling": {"rope_type": "linear", "factor": 2.5},
    },
    "gpt2": {
        "model_type": "gpt2",
        "vocab_size": VOCAB,
        "n_positions": 64,
        "n_embd": HIDDEN,
        "n_layer": 1,
        "n_head": 2,
    },
    "bert": {
        "model_type": "bert",
        "vocab_size": VOCAB,
        "hidden_size": HIDDEN,
        "intermediate_size": HIDDEN,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
    },
}
BACKEND = {
    "version": "1.0",
    "added_tokens": [],
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]},
}
TEMPLATES = (
    "{{ bos_token }}{% for m in messages %}<{{ m.role }}>{{ m['content'] | trim }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}",
    "{%- set ns = namespace(n=0) -%}{% for m in messages if m.role != 'x' %}"
    "{% set ns.n = ns.n + loop.index * 2 %}{{ m | tojson(indent=1) }}{{ ns.n ~ '!' }}"
    "{{ m.content.split('a')[::-1] | join(', ') | replace('b', 'c') | upper }}{% endfor %}",
    "{% macro f(x, y=1) %}{{ x * y }}{% endmacro %}{{ f('ab', 3) }}{{ range(3) | list }}"
    "{{ 2 ** 3 // 2 }}{{ '{}'.format(1) }}{{ strftime_now('%d %b %Y') }}"
    "{% if tools is none %}{{ raise_exception('no tools') }}{% endif %}",
)
STAGE = """func.func @forward(
    %x: tensor<?x4xf32, #nn.dims<["N"]>> {lamina.input = "x"}
) -> (tensor<?x4xf32, #nn.dims<["N"]>> {lamina.output = "y"}) {
  %y = nn.softmax %x {axis = 1 : i64} : (tensor<?x4xf32, #nn.dims<["N"]>>)
    -> tensor<?x4xf32, #nn.dims<["N"]>>
  func.return %y : tensor<?x4xf32, #nn.dims<["N"]>>
}
"""
SCALARS = """builtin.module {
  func.func @forward(%x: f32) -> f32 {
    %c = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
    %y = arith.mulf %x, %x {lamina.src = ["/square"]} : f32
    func.return %y : f32
  }
}
"""


def gguf_files() -> list[bytes]:
    """A whole model with each vocabulary, and one file with packed blocks."""
    ones = {f"blk.0.{GGUF_NAMES[name]}.weight": shape for name, shape in SHAPES.items()}
    shapes = {"token_embd.weight": (VOCAB, HIDDEN), **ones, "output_norm.weight": (HIDDEN,)}
    tensors = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    packed = {"w": ("q4_0", (2, 32), bytes(36)), "none": np.zeros((0, 3), np.float32)}
    return [
        gguf.gguf_bytes(SETTINGS | stated(TOKENIZER), tensors),
        gguf.gguf_bytes(SETTINGS | stated(SENTENCEPIECE), tensors),
        gguf.gguf_bytes(SETTINGS | {"general.alignment": 64}, packed, version=2),
    ]


def vocabularies() -> list[bytes]:
    """Files of a vocabulary and nothing else."""
    return [gguf.gguf_bytes(stated(each), {}) for each in (TOKENIZER, SENTENCEPIECE)]


def stated(metadata: dict[str, object]) -> dict[str, object]:
    """The metadata with the stored type beside each array of numbers."""
    kinds = {np.dtype(np.int32): gguf.I32, np.dtype(np.float32): gguf.F32}
    return {
        key: (kinds[value.dtype], value) if isinstance(value, np.ndarray) else value
        for key, value in metadata.items()
    }


def safetensors_files() -> list[bytes]:
    """One file and its index."""
    arrays = {"a": np.ones((2, 3), np.float32), "b": np.zeros((0, 2), np.int8)}
    index = {"metadata": {}, "weight_map": {"a": "a.safetensors", "b": "a.safetensors"}}
    return [SEPARATOR.join((save(arrays, {"format": "pt"}), encoded(index)))]


def weights() -> bytes:
    """The weights of the folder that `CONFIGS["llama"]` describes."""
    shapes = {f"model.layers.0.{name}.weight": shape for name, shape in SHAPES.items()}
    shapes |= {"model.embed_tokens.weight": (VOCAB, HIDDEN), "model.norm.weight": (HIDDEN,)}
    return save({name: np.ones(shape, np.float32) for name, shape in shapes.items()})


def folders() -> list[bytes]:
    """The JSON files of a folder, in the order of `FOLDER_FILES`."""
    beside = (
        {"eos_token_id": [1, 2], "bos_token_id": 0},
        BACKEND,
        {"bos_token": "a", "eos_token": {"content": "b"}, "chat_template": TEMPLATES[0]},
    )
    return [
        SEPARATOR.join(map(encoded, (config, *(beside if kind == "llama" else ()))))
        for kind, config in CONFIGS.items()
    ]


FOLDER_FILES = (
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
)


def templates() -> list[bytes]:
    """Templates that use what real ones use."""
    return [each.encode() for each in TEMPLATES]


def stages() -> list[bytes]:
    """Modules, the first with a manifest beside it."""
    return [STAGE.encode() + SEPARATOR + encoded({"version": 1}), SCALARS.encode()]


def compiled_files() -> list[bytes]:
    """A compiled model with settings, tokenizer and a weight."""
    with TemporaryDirectory() as folder:
        stage, path = Path(folder, "x.mlir"), Path(folder, "x.lamina")
        stage.write_text(STAGE, encoding="utf-8")
        module = lamina.read(stage).module
        values = Weights([Weight.of("w", np.arange(3, dtype=np.float32))])
        model = Model(module, values, tokenizer_from_gguf(TOKENIZER), config())
        compile_to_file(model, path, "reference")
        return [path.read_bytes()]


def config() -> ModelConfig:
    """Settings with every part there is."""
    return ModelConfig(
        architecture="llama",
        vocab_size=VOCAB,
        context_length=64,
        hidden_size=HIDDEN,
        intermediate_size=HIDDEN,
        layers=1,
        heads=2,
        kv_heads=1,
        head_dim=4,
        norm_eps=1e-5,
        activation="silu",
        rope=Rope(1e4, 4, "half_split", LinearScaling(2.0)),
    )


def artifacts() -> list[bytes]:
    """The code inside the compiled model."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "x.lamina")
        path.write_bytes(compiled_files()[0])
        from lamina.compiled.sealed_file import read_sealed

        return [read_sealed(path).sections["code"]]


def encoded(value: object) -> bytes:
    """JSON without blanks: what is not there cannot be changed to no effect."""
    return json.dumps(value, separators=(",", ":")).encode()
