import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from lamina.errors import FormatError, LaminaError, UnsupportedError
from lamina.frontend.config import config_from_folder
from lamina.frontend.model import ModelConfig
from lamina.frontend.rope import LinearScaling, Llama3Scaling, Rope

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 301,
    "hidden_size": 96,
    "intermediate_size": 200,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "rope_theta": 100_000.0,
    "tie_word_embeddings": True,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "torch_dtype": "bfloat16",
}
GPT2 = {
    **{"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 301},
    **{"n_embd": 96, "n_layer": 2, "n_head": 3, "n_positions": 64, "n_inner": None},
    **{"activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "eos_token_id": 300},
}
BERT = {
    **{"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 301},
    **{"hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 3},
    **{"intermediate_size": 200, "max_position_embeddings": 64, "type_vocab_size": 2},
    **{"hidden_act": "gelu", "layer_norm_eps": 1e-12, "position_embedding_type": "absolute"},
}
LLAMA3 = {
    **{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "original_max_position_embeddings": 8192,
}
Read = Callable[[dict[str, object]], ModelConfig]


@pytest.fixture
def folder(write_json: Callable[..., Path]) -> Read:
    """Read the settings of a folder that holds this config.json."""
    return lambda values: config_from_folder(write_json(values))


def without(values: dict[str, object], key: str) -> dict[str, object]:
    return {name: value for name, value in values.items() if name != key}


def refused(read: Read, values: dict[str, object], error: type[LaminaError], said: str) -> None:
    with pytest.raises(error) as caught:
        read(values)
    assert re.search(said, str(caught.value)), str(caught.value)
    assert "config.json: " in str(caught.value)


def test_a_llama_folder_gives_its_settings(folder: Read) -> None:
    found = folder(LLAMA)
    assert found == ModelConfig(
        architecture="llama",
        vocab_size=301,
        context_length=512,
        hidden_size=96,
        intermediate_size=200,
        layers=2,
        heads=6,
        kv_heads=2,
        head_dim=16,
        norm_eps=1e-5,
        activation="silu",
        rope=Rope(100_000.0, 16, "half_split"),
        tied_embeddings=True,
        bos_id=1,
        eos_ids=(2,),
    )
    assert found.metadata["torch_dtype"] == "bfloat16"


def test_a_gpt2_folder_gives_its_settings(folder: Read) -> None:
    found = folder(GPT2)
    assert (found.architecture, found.context_length, found.rope) == ("gpt2", 64, None)
    assert (found.hidden_size, found.intermediate_size, found.head_dim) == (96, 384, 32)
    assert (found.activation, found.norm_eps, found.tied_embeddings) == ("gelu_tanh", 1e-5, True)
    assert found.attention_bias
    assert found.eos_ids == (300,)


def test_a_bert_folder_gives_its_settings(folder: Read) -> None:
    found = folder(BERT)
    assert (found.architecture, found.context_length, found.token_types) == ("bert", 64, 2)
    assert (found.hidden_size, found.intermediate_size, found.head_dim) == (96, 200, 32)
    assert (found.activation, found.norm_eps, found.rope) == ("gelu", 1e-12, None)
    assert (found.bos_id, found.eos_ids, found.pooling) == (None, (), None)


@pytest.mark.parametrize(("stated", "found"), [(128, 128), (None, 16)])
def test_a_head_may_differ_from_its_share_of_the_hidden_size(
    stated: int | None, found: int, folder: Read
) -> None:
    config = folder({**LLAMA, "head_dim": stated})
    assert (config.head_dim, config.rope.dims) == (found, found)


@pytest.mark.parametrize(("kv", "found"), [(1, 1), (2, 2), (3, 3), (6, 6), (None, 6)])
def test_any_divisor_of_the_heads_may_share_keys(kv: int | None, found: int, folder: Read) -> None:
    assert folder({**LLAMA, "num_key_value_heads": kv}).kv_heads == found


@pytest.mark.parametrize("name", ["silu", "swish", "gelu", "gelu_new", "gelu_pytorch_tanh", "relu"])
def test_activations_are_known_by_any_name(name: str, folder: Read) -> None:
    spelling = {"swish": "silu", "gelu_new": "gelu_tanh", "gelu_pytorch_tanh": "gelu_tanh"}
    assert folder({**LLAMA, "hidden_act": name}).activation == spelling.get(name, name)


def test_defaults_stand_for_missing_fields(folder: Read) -> None:
    optional = {"rms_norm_eps", "hidden_act", "rope_theta", "tie_word_embeddings"}
    found = folder({key: value for key, value in LLAMA.items() if key not in optional})
    assert (found.norm_eps, found.activation) == (1e-6, "silu")
    assert (found.rope.theta, found.tied_embeddings) == (10_000.0, False)


@pytest.mark.parametrize(
    ("own", "generation", "found"),
    [
        (2, None, (2,)),
        ([2, 7], None, (2, 7)),
        (None, 5, (5,)),
        (2, [5, 2, 6], (5, 2, 6)),
        (2, 5, (5, 2)),
        (None, None, ()),
    ],
)
def test_end_ids_come_from_both_files(
    own: object, generation: object, found: tuple[int, ...], write_json: Callable[..., Path]
) -> None:
    write_json({"eos_token_id": generation}, "generation_config.json")
    path = write_json({**LLAMA, "eos_token_id": own})
    assert config_from_folder(path).eos_ids == found


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_theta": 5e5, "rope_scaling": LLAMA3},
        {"rope_theta": 5e5, "rope_scaling": {**without(LLAMA3, "rope_type"), "type": "llama3"}},
        {"rope_theta": 5e5, "rope_scaling": {**LLAMA3, "type": "llama3"}},
        {"rope_theta": None, "rope_parameters": {**LLAMA3, "rope_theta": 5e5}},
        {"rope_theta": 5e5, "rope_parameters": LLAMA3, "rope_scaling": LLAMA3},
    ],
)
def test_llama3_scaling_is_read_in_every_spelling(rope: dict[str, object], folder: Read) -> None:
    found = folder({**LLAMA, "max_position_embeddings": 131_072, **rope})
    assert found.rope == Rope(5e5, 16, "half_split", Llama3Scaling(8.0, 1.0, 4.0, 8192))
    assert found.context_length == 131_072


@pytest.mark.parametrize(
    ("rope", "context"),
    [
        ({"rope_scaling": {"type": "linear", "factor": 4.0}}, 2048),
        ({"rope_scaling": {"rope_type": "linear", "factor": 2.5}}, 1280),
        (
            {
                "rope_parameters": {
                    **{"rope_type": "linear", "factor": 4, "rope_theta": 1e5},
                    "original_max_position_embeddings": 256,
                }
            },
            1024,
        ),
    ],
)
def test_linear_scaling_stretches_the_context(
    rope: dict[str, object], context: int, folder: Read
) -> None:
    found = folder({**LLAMA, **rope})
    assert isinstance(found.rope.scaling, LinearScaling)
    assert found.context_length == context


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_scaling": None},
        {"rope_scaling": {"rope_type": "default"}},
        {"rope_parameters": {"rope_theta": 1e5}},
    ],
)
def test_no_scaling_is_no_scaling(rope: dict[str, object], folder: Read) -> None:
    assert folder({**LLAMA, **rope}).rope == Rope(100_000.0, 16, "half_split")


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": -1, "desc_act": True}

UNSUPPORTED = {
    "remote code": ({"auto_map": {"AutoModel": "evil.Model"}}, "field auto_map: .*evil.Model"),
    "gptq": ({"quantization_config": GPTQ}, "quantization_config: field quant_method: 'gptq' is"),
    "awq": (
        {"quantization_config": {"quant_method": "awq", "bits": 4}},
        "quantization_config: field quant_method: 'awq' is not supported",
    ),
    "quantised by none": ({"quantization_config": {"bits": 3}}, "quantization_config: .*None is"),
    "compressed": (
        {"compression_config": {"quant_method": "compressed-tensors"}},
        "compression_config: field quant_method: 'compressed-tensors'",
    ),
    "model type": ({"model_type": "mamba"}, "field model_type: 'mamba' is not supported, only b"),
    "architecture": ({"architectures": ["LlamaForX"]}, "field architectures: .*LlamaForX"),
    "encoder-decoder": ({"is_encoder_decoder": True}, "field is_encoder_decoder: True"),
    "activation": ({"hidden_act": "quick_gelu"}, "field hidden_act: 'quick_gelu' is not"),
    "yarn": ({"rope_scaling": {"rope_type": "yarn", "factor": 4}}, "field rope_type: 'yarn' is"),
    "dynamic": ({"rope_scaling": {"type": "dynamic", "factor": 4}}, "field type: 'dynamic' is"),
    "v5 longrope": ({"rope_parameters": {"rope_type": "longrope"}}, "field rope_type: 'longrope'"),
    "rope per layer": ({"rope_parameters": {"full_attention": {}}}, "field rope_parameters: .*one"),
    "partial rope": ({"partial_rotary_factor": 0.5}, "field partial_rotary_factor: 0.5 is not"),
    "window": ({"sliding_window": 511}, "field sliding_window: 511 is not supported"),
    "layers": ({"layer_types": ["full_attention", "sliding_attention"]}, "field layer_types"),
    "softcap": ({"final_logit_softcapping": 30.0}, "field final_logit_softcapping: 30.0"),
}


@pytest.mark.parametrize(("change", "said"), UNSUPPORTED.values(), ids=UNSUPPORTED)
def test_what_a_llama_folder_may_not_ask_for_is_named(
    change: dict[str, object], said: str, folder: Read
) -> None:
    refused(folder, {**LLAMA, **change}, UnsupportedError, said)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({**GPT2, "scale_attn_weights": False}, "field scale_attn_weights: False"),
        ({**GPT2, "scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx"),
        ({**GPT2, "add_cross_attention": True}, "field add_cross_attention: True"),
        ({**GPT2, "activation_function": "mish"}, "field activation_function: 'mish'"),
        ({**BERT, "position_embedding_type": "relative_key"}, "'relative_key' is not supported"),
        ({**BERT, "is_decoder": True}, "field is_decoder: True"),
    ],
)
def test_what_other_folders_may_not_ask_for_is_named(
    values: dict[str, object], said: str, folder: Read
) -> None:
    refused(folder, values, UnsupportedError, said)


@pytest.mark.parametrize(
    "window",
    [
        {"sliding_window": None},
        {"sliding_window": 512},
        {"sliding_window": 4, "use_sliding_window": False},
        {"layer_types": ["full_attention", "full_attention"]},
    ],
)
def test_a_window_that_never_closes_is_no_window(window: dict[str, object], folder: Read) -> None:
    assert folder({**LLAMA, **window}) == folder(LLAMA)


MALFORMED = {
    "heads over kv heads": ({"num_key_value_heads": 4}, "num_key_value_heads: expected a divisor"),
    "uneven heads": ({"num_attention_heads": 5}, "field head_dim is missing, and 5 heads cannot"),
    "odd head": ({"head_dim": 15}, "a head of 15 elements cannot turn in pairs"),
    "no hidden size": ({"hidden_size": None}, "field hidden_size is missing, expected a whole"),
    "zero layers": ({"num_hidden_layers": 0}, "field num_hidden_layers: expected a whole number"),
    "float layers": ({"num_hidden_layers": 2.0}, "field num_hidden_layers: expected a whole num"),
    "true as layers": ({"num_hidden_layers": True}, "field num_hidden_layers: .*got True"),
    "huge layers": ({"num_hidden_layers": 2**31}, "field num_hidden_layers: .*got 2147483648"),
    "text as eps": ({"rms_norm_eps": "1e-5"}, "field rms_norm_eps: expected a number"),
    "zero theta": ({"rope_theta": 0}, "field rope_theta: expected a finite number above zero"),
    "huge theta": ({"rope_theta": 10**400}, "field rope_theta: expected a finite number above"),
    "number as flag": ({"tie_word_embeddings": 1}, "field tie_word_embeddings: expected true or"),
    "number as name": ({"hidden_act": 1}, "field hidden_act: expected a string, got 1"),
    "end id": ({"eos_token_id": 301}, "field eos_token_id: expected token ids from 0 to 300"),
    "end ids": ({"eos_token_id": [1, -1]}, "field eos_token_id: expected token ids"),
    "text as end": ({"eos_token_id": "</s>"}, "field eos_token_id: expected token ids"),
    "list as rope": ({"rope_scaling": []}, "field rope_scaling: expected an object"),
    "no rope type": ({"rope_scaling": {"factor": 2.0}}, "rope_scaling: field type is missing"),
    "no factor": ({"rope_scaling": {"type": "linear"}}, "rope_scaling: field factor is missing"),
    "two types": (
        {"rope_scaling": {"type": "linear", "rope_type": "llama3", "factor": 2}},
        "rope_scaling: field type: expected the same as rope_type, llama3",
    ),
    "two scalings": (
        {"rope_scaling": LLAMA3, "rope_parameters": {"rope_type": "default"}},
        "field rope_scaling: expected the same scaling as in rope_parameters",
    ),
    "two thetas": ({"rope_parameters": {"rope_theta": 1e4}}, "field rope_theta: expected the same"),
    "equal factors": (
        {"rope_scaling": {**LLAMA3, "high_freq_factor": 1.0}},
        "field high_freq_factor: expected a number above low_freq_factor",
    ),
    "text as architectures": ({"architectures": "LlamaForCausalLM"}, "field architectures: expec"),
    "no model type": ({"model_type": None}, "field model_type is missing"),
}


@pytest.mark.parametrize(("change", "said"), MALFORMED.values(), ids=MALFORMED)
def test_a_bad_field_of_a_folder_is_named(
    change: dict[str, object], said: str, folder: Read
) -> None:
    refused(folder, {**LLAMA, **change}, FormatError, said)


def test_a_quantised_folder_is_known_by_its_file(write_json: Callable[..., Path]) -> None:
    write_json({"bits": 4}, "quantize_config.json")
    with pytest.raises(UnsupportedError, match=r"quantize_config\.json: quantised weights"):
        config_from_folder(write_json(LLAMA))


def test_a_folder_without_a_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"has no config\.json"):
        config_from_folder(tmp_path)


@pytest.mark.parametrize("text", [b"", b"[1]", b"{", b'{"a": 1, "a": 2}', b'{"a": NaN}', b"\xff{}"])
def test_a_broken_config_is_refused(text: bytes, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(text)
    with pytest.raises(FormatError, match=r"config\.json: "):
        config_from_folder(tmp_path)


ODD = [None, True, 0, -1, 2**70, 1.5, 1e999, "", "x", [], [None], {}, {"type": 1}, {"factor": []}]


@pytest.mark.parametrize("base", [LLAMA, GPT2, BERT], ids=["llama", "gpt2", "bert"])
def test_odd_values_are_read_or_refused(base: dict[str, object], folder: Read) -> None:
    for key in base | {"rope_scaling": 0, "rope_parameters": 0, "head_dim": 0, "auto_map": 0}:
        for value in ODD:
            with suppress(LaminaError):
                assert folder({**base, key: value}).architecture == base["model_type"]
