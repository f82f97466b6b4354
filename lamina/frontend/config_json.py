"""The settings that a Hugging Face config.json states, by model type.

Source: the configuration classes of transformers, whose defaults stand for missing fields.
"""

from lamina.frontend.config_checks import (
    Settings,
    check_attention,
    head_dim,
    refuse_window,
    require_settings,
)
from lamina.frontend.fields import Fields
from lamina.frontend.model import ModelConfig
from lamina.frontend.rope import rope_from_json

_ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}

_LLAMA_SETTINGS: Settings = {
    "attn_logit_softcapping": (),
    "final_logit_softcapping": (),
    "no_rope_layers": (),
    "num_local_experts": (),
}
_GPT2_SETTINGS: Settings = {
    "add_cross_attention": (False,),
    "scale_attn_by_inverse_layer_idx": (False,),
    "scale_attn_weights": (True,),
}
_BERT_SETTINGS: Settings = {
    "add_cross_attention": (False,),
    "is_decoder": (False,),
    "position_embedding_type": ("absolute",),
}


def _activation(config: Fields, key: str, default: str) -> str:
    name = config.text(key, default)
    if name not in _ACTIVATIONS:
        raise config.unsupported(key, ", ".join(_ACTIVATIONS))
    return _ACTIVATIONS[name]


def _refuse_layer_types(config: Fields) -> None:
    kinds = config.values.get("layer_types")
    if kinds is not None and kinds != ["full_attention"] * config.count("num_hidden_layers"):
        raise config.unsupported("layer_types", "full_attention in every layer")


def llama_config(config: Fields) -> ModelConfig:
    """Return the settings of `model_type` llama, whose q and k weights turn half-split pairs."""
    require_settings(config, _LLAMA_SETTINGS)
    hidden, heads = config.count("hidden_size"), config.count("num_attention_heads")
    size = head_dim(config, "head_dim", hidden, heads)
    rope = rope_from_json(config, size)
    context = rope.scaled_context(config.count("max_position_embeddings", 2048))
    refuse_window(config, "sliding_window", context)
    _refuse_layer_types(config)
    found = ModelConfig(
        architecture="llama",
        vocab_size=config.count("vocab_size"),
        context_length=context,
        hidden_size=hidden,
        intermediate_size=config.count("intermediate_size"),
        layers=config.count("num_hidden_layers"),
        heads=heads,
        kv_heads=config.count("num_key_value_heads", heads),
        head_dim=size,
        norm_eps=config.number("rms_norm_eps", 1e-6),
        activation=_activation(config, "hidden_act", "silu"),
        rope=rope,
        tied_embeddings=config.flag("tie_word_embeddings", False),
        attention_bias=config.flag("attention_bias", False),
        mlp_bias=config.flag("mlp_bias", False),
    )
    return check_attention(config, found, "num_key_value_heads")


def gpt2_config(config: Fields) -> ModelConfig:
    """Return the settings of `model_type` gpt2: learned positions, biases on every linear."""
    require_settings(config, _GPT2_SETTINGS)
    hidden, heads = config.count("n_embd"), config.count("n_head")
    return ModelConfig(
        architecture="gpt2",
        vocab_size=config.count("vocab_size"),
        context_length=config.count("n_positions", 1024),
        hidden_size=hidden,
        intermediate_size=config.count("n_inner", 4 * hidden),
        layers=config.count("n_layer"),
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim(config, "head_dim", hidden, heads),
        norm_eps=config.number("layer_norm_epsilon", 1e-5),
        activation=_activation(config, "activation_function", "gelu_new"),
        tied_embeddings=config.flag("tie_word_embeddings", True),
        attention_bias=True,
        mlp_bias=True,
    )


def bert_config(config: Fields) -> ModelConfig:
    """Return the settings of `model_type` bert: an encoder with learned positions and segments."""
    require_settings(config, _BERT_SETTINGS)
    hidden, heads = config.count("hidden_size"), config.count("num_attention_heads")
    return ModelConfig(
        architecture="bert",
        vocab_size=config.count("vocab_size"),
        context_length=config.count("max_position_embeddings", 512),
        hidden_size=hidden,
        intermediate_size=config.count("intermediate_size"),
        layers=config.count("num_hidden_layers"),
        heads=heads,
        kv_heads=heads,
        head_dim=head_dim(config, "head_dim", hidden, heads),
        norm_eps=config.number("layer_norm_eps", 1e-12),
        activation=_activation(config, "hidden_act", "gelu"),
        attention_bias=True,
        mlp_bias=True,
        token_types=config.count("type_vocab_size", 2),
    )
