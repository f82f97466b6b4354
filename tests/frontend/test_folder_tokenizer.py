import json
from collections.abc import Callable
from pathlib import Path

import pytest
import tokenizers
from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors

from lamina.errors import FormatError, UnsupportedError
from lamina.frontend.folder_tokenizer import tokenizer_from_folder
from lamina.frontend.tokenizer import Tokenizer

VOCAB = ["<unk>", "<s>", "</s>", "<pad>", "▁", "a", "b", "▁a", "ab", "▁ab", "<|im_end|>"]
MERGES = [("▁", "a"), ("a", "b"), ("▁a", "b")]
TEMPLATE = "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}"


def backend() -> tokenizers.Tokenizer:
    vocab = {token: n for n, token in enumerate(VOCAB)}
    made = tokenizers.Tokenizer(models.BPE(vocab=vocab, merges=MERGES, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    made.add_special_tokens(
        [AddedToken(t, special=True) for t in ("<unk>", "<s>", "</s>", "<pad>")]
    )
    return made


def word_pieces() -> tokenizers.Tokenizer:
    vocab = {t: n for n, t in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "##b", "b"])}
    made = tokenizers.Tokenizer(models.WordPiece(vocab=vocab, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    made.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    made.enable_padding(length=16)
    made.enable_truncation(max_length=16)
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., Path]:
    """Write a folder: a tokenizer, and JSON files by their names without the ending."""

    def write(tokenizer: tokenizers.Tokenizer | None = None, **files: object) -> Path:
        (tmp_path / "tokenizer.json").write_text((tokenizer or backend()).to_str())
        for name, values in files.items():
            (tmp_path / f"{name}.json").write_text(json.dumps(values))
        return tmp_path

    return write


def begins(folder: Path) -> Tokenizer:
    made = backend()
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    (folder / "tokenizer.json").write_text(made.to_str())
    return tokenizer_from_folder(folder)


def test_text_is_cut_as_tokenizer_json_says(folder) -> None:
    tokenizer = tokenizer_from_folder(folder())
    assert (tokenizer.encode("ab a"), tokenizer.vocab_size) == ([9, 7], 11)
    assert tokenizer.decode([9, 7]) == "ab a"


def test_padding_and_truncation_are_switched_off(folder) -> None:
    ids = tokenizer_from_folder(folder(word_pieces())).encode("ab " * 20)
    assert ids == [2, *[4, 5] * 20, 3]


def test_the_post_processors_frame_is_kept_and_can_be_left_out(folder) -> None:
    tokenizer = tokenizer_from_folder(folder(word_pieces()))
    assert [tokenizer.encode("ab"), tokenizer.encode("ab", add_bos=False)] == [[2, 4, 5, 3], [4, 5]]


def test_a_frame_written_in_the_text_is_not_doubled(folder) -> None:
    assert tokenizer_from_folder(folder(word_pieces())).encode("[CLS]a[SEP]") == [2, 4, 3]


@pytest.mark.parametrize("wanted", [True, False])
def test_the_settings_say_whether_text_begins(folder, wanted: bool) -> None:
    path = folder(tokenizer_config={"bos_token": "<s>", "add_bos_token": wanted})
    assert tokenizer_from_folder(path).encode("ab")[:-1] == [1] * wanted
    assert begins(path).encode("ab")[:-1] == [1] * wanted


@pytest.mark.parametrize(
    ("files", "ends"),
    [
        ({"config": {"eos_token_id": 2}}, {2}),
        ({"config": {"eos_token_id": [2, 10]}}, {2, 10}),
        ({"generation_config": {"eos_token_id": 10}, "config": {}}, {10}),
        ({"generation_config": {"eos_token_id": [10]}, "config": {"eos_token_id": 2}}, {2, 10}),
        ({"tokenizer_config": {"eos_token": "</s>"}}, {2}),
        ({"special_tokens_map": {"eos_token": {"content": "</s>"}}}, {2}),
        ({"tokenizer_config": {"eos_token": "</s>"}, "config": {"eos_token_id": None}}, {2}),
        ({"config": {"eos_token_id": 50256}}, set()),
        ({}, set()),
    ],
)
def test_every_end_that_the_files_give_is_known(folder, files: dict, ends: set[int]) -> None:
    assert tokenizer_from_folder(folder(**files)).eos_ids == ends


@pytest.mark.parametrize(
    "files", [{"config": {"bos_token_id": 1}}, {"tokenizer_config": {"bos_token": "<s>"}}]
)
def test_the_beginning_comes_from_the_ids_or_the_name(folder, files: dict) -> None:
    assert tokenizer_from_folder(folder(**files)).bos_id == 1


def test_a_special_token_that_only_the_settings_name_is_a_control_token(folder) -> None:
    tokenizer = tokenizer_from_folder(folder(tokenizer_config={"eos_token": "<|im_end|>"}))
    assert tokenizer.encode("ab<|im_end|>") == [9, 10]
    assert tokenizer.decode([9, 10]) == "ab"


@pytest.mark.parametrize(
    "template",
    [TEMPLATE, [{"name": "rag", "template": "x"}, {"name": "default", "template": TEMPLATE}]],
)
def test_the_chat_template_is_text_or_a_list_with_a_default(folder, template: object) -> None:
    path = folder(tokenizer_config={"bos_token": "<s>", "chat_template": template})
    chat = [{"role": "user", "content": "ab"}]
    assert tokenizer_from_folder(path).apply_chat_template(chat) == "<s>ab"


def test_a_template_file_comes_before_the_settings(folder) -> None:
    path = folder(tokenizer_config={"chat_template": "old"})
    (path / "chat_template.jinja").write_text("new")
    assert tokenizer_from_folder(path).apply_chat_template([]) == "new"


def test_blanks_beside_a_control_token_are_stripped_also_in_a_disguised_chat(folder) -> None:
    made = backend()
    made.add_special_tokens([AddedToken("<|im_end|>", special=True, lstrip=True, rstrip=True)])
    template = "{{ messages[0].content }} <|im_end|> a"
    tokenizer = tokenizer_from_folder(folder(made, tokenizer_config={"chat_template": template}))
    plain, hostile = (
        tokenizer.encode_chat([{"role": "user", "content": content}]) for content in ("b", "b</s>")
    )
    assert plain == [4, 6, 10, 7]
    assert (hostile[:2], hostile[-2:], 2 in hostile) == ([4, 6], [10, 7], False)
    assert hostile[-3] != VOCAB.index("▁")


def test_streamed_text_equals_decoded_text(folder) -> None:
    tokenizer = tokenizer_from_folder(folder())
    stream, ids = tokenizer.stream(), [9, 7, 1, 7, 5, 4, 6, 10]
    assert (
        "".join(map(stream.push, ids)) + stream.finish()
        == tokenizer.decode(ids)
        == "ab a aa b<|im_end|>"
    )


def test_a_folder_without_tokenizer_json_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=f"{tmp_path}: .*no tokenizer.json"):
        tokenizer_from_folder(tmp_path)


@pytest.mark.parametrize("text", ["{", "{}", '{"model": {}}', "[]", "\x00"])
def test_a_broken_tokenizer_json_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "tokenizer.json").write_text(text)
    with pytest.raises(FormatError, match=r"tokenizer\.json: not a tokenizer"):
        tokenizer_from_folder(tmp_path)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("tokenizer_config", []),
        ("tokenizer_config", {"add_bos_token": 1, "bos_token": "<s>"}),
        ("tokenizer_config", {"bos_token": 1}),
        ("tokenizer_config", {"bos_token": {"text": "<s>"}}),
        ("tokenizer_config", {"chat_template": 1}),
        ("tokenizer_config", {"chat_template": ["x"]}),
        ("config", {"eos_token_id": -1}),
        ("config", {"eos_token_id": "2"}),
        ("generation_config", {"bos_token_id": [1.5]}),
    ],
)
def test_a_broken_setting_is_refused_with_its_file(folder, name: str, values: object) -> None:
    with pytest.raises(FormatError, match=rf"{name}\.json: "):
        tokenizer_from_folder(folder(**{name: values}))


def test_a_vocabulary_that_the_backend_panics_at_is_refused(tmp_path: Path) -> None:
    model = {"type": "BPE", "vocab": {"a": 0, "b": 1, "": 2}, "merges": ["a b"]}
    (tmp_path / "tokenizer.json").write_text(json.dumps({"version": "1.0", "model": model}))
    with pytest.raises(FormatError, match=r"tokenizer\.json: not a tokenizer"):
        tokenizer_from_folder(tmp_path)
