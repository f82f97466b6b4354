import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import checkpoints
import gguf_writer
import numpy as np
import pytest
from checkpoints import GPT2, HIDDEN, VOCAB, Checkpoint

import lamina
from lamina.errors import FormatError, InputError, UnsupportedError
from lamina.frontend.config_json import gpt2_config
from lamina.frontend.gpt2 import build
from lamina.frontend.model import Model
from lamina.frontend.readers import GgufFrontend, HuggingFaceFrontend
from lamina.frontend.settings import SETTINGS, SettingsReader

Tiny = Callable[[str], tuple[Checkpoint, Model]]
NAMES = ("AcmeForCausalLM",)


def test_a_model_says_which_format_it_was_read_from(tiny: Tiny) -> None:
    assert [tiny(name)[1].format for name in ("llama", "gguf-f32")] == ["huggingface", "gguf"]


def test_a_gguf_file_is_known_by_its_first_bytes(tmp_path: Path) -> None:
    path = checkpoints.of_gguf("q8_0").write(tmp_path).rename(tmp_path / "blob")
    assert lamina.read(path).format == "gguf"


def test_a_gguf_file_that_is_none_is_refused_as_one(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"PK\3\4")
    with pytest.raises(FormatError, match=r"model\.gguf: at byte 0, magic: expected b'GGUF'"):
        lamina.read(tmp_path / "model.gguf")


def test_a_folder_that_holds_no_model_is_in_no_format(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(InputError, match=r"no format that can be read .*gguf, huggingface"):
        lamina.read(tmp_path)


def test_weights_without_settings_are_refused(tmp_path: Path) -> None:
    checkpoints.save_folder(tmp_path, checkpoints.GPT2, checkpoints.gpt2())
    (tmp_path / "config.json").unlink()
    with pytest.raises(FormatError, match=r"the folder has no config\.json"):
        lamina.read(tmp_path)


@pytest.mark.parametrize("front", [GgufFrontend, HuggingFaceFrontend])
def test_an_architecture_without_converter_is_refused_by_name(
    tmp_path: Path, front: Callable[..., GgufFrontend]
) -> None:
    tiny = checkpoints.of_gguf("f16") if front is GgufFrontend else checkpoints.of_llama()
    with pytest.raises(UnsupportedError, match="no converter for the architecture llama"):
        front({}, SETTINGS).read(tiny.write(tmp_path))


def test_an_architecture_of_ones_own_is_read_by_its_own_reader(tmp_path: Path) -> None:
    named = {"model_type": "acme", "architectures": ["AcmeForCausalLM"]}
    checkpoints.save_folder(tmp_path, GPT2 | named, checkpoints.gpt2())
    own = SettingsReader(lambda fields: replace(gpt2_config(fields), architecture="acme"))
    front = HuggingFaceFrontend({"acme": lambda: build}, {"acme": own})
    with pytest.raises(UnsupportedError, match=r"architectures: .*AcmeForCausalLM"):
        front.read(tmp_path)
    front = HuggingFaceFrontend({"acme": lambda: build}, {"acme": replace(own, classes=NAMES)})
    assert "nn.layer_norm" in str(front.read(tmp_path).module)


def test_a_model_without_vocabulary_has_no_tokenizer(tiny: Tiny) -> None:
    assert tiny("llama")[1].tokenizer is None
    assert tiny("gguf-f32")[1].tokenizer is None


def test_blocks_that_no_graph_takes_are_refused_by_name(tmp_path: Path) -> None:
    tensors = checkpoints.gguf_llama("f16")
    tensors["token_embd.weight"] = gguf_writer.random_tensor("iq4_nl", (VOCAB, HIDDEN), 32, 18, 0)
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf_writer.gguf_bytes(checkpoints.GGUF_METADATA, tensors))
    with pytest.raises(
        UnsupportedError, match=r"model\.gguf: tensor 'token_embd.weight': .*iq4_nl"
    ):
        lamina.read(path)


def test_more_layers_than_there_are_tensors_are_refused(tmp_path: Path) -> None:
    settings = checkpoints.LLAMA | {"num_hidden_layers": 2**31 - 1}
    folder = checkpoints.save_folder(tmp_path, settings, checkpoints.llama(settings))
    with pytest.raises(FormatError, match=r"model\.layers\.2\.input_layernorm\.weight' is missing"):
        lamina.read(folder)


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_a_file_that_was_cut_since_it_was_read_is_refused(tmp_path: Path, target: str) -> None:
    path = checkpoints.of_gguf("q4_1").write(tmp_path)
    model = lamina.read(path)
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(FormatError, match=r"model\.gguf: the file was changed while it was read"):
        lamina.compile(model, target)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"head_dim": 2**31 - 2}, "rotary positions of at most 2048 elements"),
        ({"rope_theta": 1e-299}, "infinite angles"),
        ({"vocab_size": 2**31 - 1}, r"expected shape \(2147483647, 96\), got \(301, 96\)"),
    ],
)
def test_a_setting_that_no_graph_can_have_is_refused(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    arrays = checkpoints.llama(checkpoints.LLAMA)
    folder = checkpoints.save_folder(tmp_path, checkpoints.LLAMA | change, arrays)
    with pytest.raises((FormatError, UnsupportedError), match=message):
        lamina.read(folder)


def test_the_fetched_minilm_comes_with_its_tokenizer(fetched: Callable[[str], Path]) -> None:
    tokenizer = lamina.read(fetched("minilm")).tokenizer
    assert tokenizer is not None
    assert tokenizer.encode("hello")[0] == 101
    assert np.array(tokenizer.encode("hello")).shape == (3,)
