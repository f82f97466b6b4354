from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from lamina.errors import FormatError, InputError, UnsupportedError
from lamina.frontend.config import config_from_folder
from lamina.frontend.folder import open_folder
from lamina.frontend.pooling import Pooling

GPT2 = {"model_type": "gpt2", "vocab_size": 5, "n_embd": 4, "n_layer": 1, "n_head": 2}
BERT = {
    **{"model_type": "bert", "vocab_size": 5, "hidden_size": 4, "num_hidden_layers": 1},
    **{"num_attention_heads": 2, "intermediate_size": 8},
}
TRANSFORMER = {"path": "", "type": "sentence_transformers.models.Transformer"}
POOLING = {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}
NORMALIZE = {"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}
WriteJson = Callable[..., Path]


def save(path: Path, **values: int) -> None:
    save_file({name: np.full(2, value, "f4") for name, value in values.items()}, path)


def test_a_folder_gives_settings_weights_and_tokenizer_files(write_json: WriteJson) -> None:
    folder = write_json(GPT2)
    save(folder / "model.safetensors", wte=3)
    (folder / "tokenizer.json").write_text("{}")
    (folder / "README.md").write_text("hello")
    found = open_folder(folder)
    assert (found.config.architecture, found.weights["wte"].array.tolist()) == ("gpt2", [3, 3])
    assert found.tokenizer_files == {"tokenizer.json": folder / "tokenizer.json"}


def test_a_sharded_folder_is_read_by_its_index(write_json: WriteJson) -> None:
    folder = write_json(GPT2)
    save(folder / "a.safetensors", x=1)
    save(folder / "b.safetensors", y=2)
    write_json(
        {"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}}, "model.safetensors.index.json"
    )
    assert {name: weight.array[0] for name, weight in open_folder(folder).weights.items()} == {
        "x": 1,
        "y": 2,
    }


def test_a_folder_of_links_is_read(write_json: WriteJson, tmp_path: Path) -> None:
    folder = write_json(GPT2)
    (tmp_path / "blobs").mkdir()
    save(tmp_path / "blobs" / "0f3a", x=1)
    (folder / "model.safetensors").symlink_to(tmp_path / "blobs" / "0f3a")
    assert list(open_folder(folder).weights) == ["x"]


@pytest.mark.parametrize("name", ["pytorch_model.bin", "pytorch_model.bin.index.json"])
def test_pickled_weights_are_refused_by_name(name: str, write_json: WriteJson) -> None:
    folder = write_json(GPT2)
    (folder / name).write_bytes(b"\x80\x02")
    with pytest.raises(UnsupportedError, match=f"{name}: pickled weights can run code"):
        open_folder(folder)


def test_pickled_weights_beside_safetensors_are_ignored(write_json: WriteJson) -> None:
    folder = write_json(GPT2)
    save(folder / "model.safetensors", x=1)
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x02")
    assert list(open_folder(folder).weights) == ["x"]


def test_a_folder_without_weights_is_refused(write_json: WriteJson) -> None:
    folder = write_json(GPT2)
    save(folder / "stray.safetensors", x=1)
    with pytest.raises(FormatError, match=r"neither model\.safetensors nor"):
        open_folder(folder)


def test_a_path_that_is_no_folder_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a folder"):
        open_folder(tmp_path / "none")


@pytest.mark.parametrize(
    ("modules", "config", "found"),
    [
        ([TRANSFORMER], {}, None),
        ([TRANSFORMER, POOLING], {"pooling_mode_mean_tokens": True}, Pooling("mean", False)),
        (
            [TRANSFORMER, POOLING, NORMALIZE],
            {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False},
            Pooling("cls", True),
        ),
        ([TRANSFORMER, POOLING], {"pooling_mode": "mean"}, Pooling("mean", False)),
    ],
)
def test_pooling_is_read_beside_an_encoder(
    modules: object, config: object, found: Pooling | None, write_json: WriteJson
) -> None:
    write_json(modules, "modules.json")
    write_json({"word_embedding_dimension": 4, **config}, "1_Pooling/config.json")
    assert config_from_folder(write_json(BERT)).pooling == found


@pytest.mark.parametrize(
    ("modules", "config", "error", "said"),
    [
        ([TRANSFORMER, POOLING], {"pooling_mode_max_tokens": True}, UnsupportedError, "max_tokens"),
        ([TRANSFORMER, POOLING], {}, UnsupportedError, "pooling mode none"),
        (
            [TRANSFORMER, POOLING],
            {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True},
            UnsupportedError,
            "pooling mode cls, mean",
        ),
        ([TRANSFORMER, {**POOLING, "path": "../x"}], {}, FormatError, r"got '\.\./x'"),
        ([TRANSFORMER, POOLING, {"type": "a.Dense"}], {}, UnsupportedError, "Pooling, Dense"),
        ([POOLING], {}, UnsupportedError, "the modules Pooling are not"),
        ([{**TRANSFORMER, "path": "0_Transformer"}], {}, UnsupportedError, "in the folder itself"),
        ([], {}, UnsupportedError, "the modules none are not"),
        ({"a": 1}, {}, FormatError, "expected a JSON list of objects"),
        ([{"path": ""}], {}, FormatError, "module 0: field type is missing"),
    ],
)
def test_other_modules_are_refused_by_name(
    modules: object, config: object, error: type[Exception], said: str, write_json: WriteJson
) -> None:
    write_json(modules, "modules.json")
    write_json(config, "1_Pooling/config.json")
    with pytest.raises(error, match=said):
        config_from_folder(write_json(BERT))


def test_a_config_larger_than_any_is_refused_unread(
    write_json: WriteJson, refusal: Callable[..., str]
) -> None:
    folder = write_json(GPT2)
    with (folder / "config.json").open("r+b") as file:
        file.truncate(10**9)
    message = refusal(lambda path: config_from_folder(path.parent), folder / "config.json")
    assert "expected at most 100000000 bytes of JSON" in message


def test_a_message_quotes_little_of_the_file_on_one_line(write_json: WriteJson) -> None:
    folder = write_json({**GPT2, "model_type": "a\nb" * 10_000})
    with pytest.raises(UnsupportedError) as caught:
        config_from_folder(folder)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < len(str(folder)) + 200
