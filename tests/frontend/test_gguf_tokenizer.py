import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lamina.errors import FormatError, InputError, UnsupportedError
from lamina.frontend.gguf_tokenizer import tokenizer_from_gguf
from lamina.frontend.tokenizer import Tokenizer

GOLDEN = Path(__file__).parent.parent / "golden"
AWKWARD = json.loads((GOLDEN / "smollm2_tokens.json").read_text())
"""Forty strings, and llama.cpp's ids for them under each pre-tokeniser, with this vocabulary."""


def smollm2_metadata() -> dict:
    metadata = json.loads(gzip.decompress((GOLDEN / "smollm2_vocab.json.gz").read_bytes()))
    types = np.array(metadata["tokenizer.ggml.token_type"], np.int32)
    return metadata | {"tokenizer.ggml.token_type": types}


SMOLLM2 = smollm2_metadata()
TOKENIZER = tokenizer_from_gguf(SMOLLM2)
N = TOKENIZER.vocab_size
BYTES = [n for n, t in enumerate(SMOLLM2["tokenizer.ggml.tokens"]) if len(t) == 1]
"""Tokens of one byte, most of which are only a part of a character."""

SMALL = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "gpt-2",
    "tokenizer.ggml.tokens": ["a", "b", "ab", "<end>", "<mark>"],
    "tokenizer.ggml.token_type": np.array([1, 1, 1, 3, 4], np.int32),
    "tokenizer.ggml.scores": np.zeros(5, np.float32),
    "tokenizer.ggml.merges": ["a b"],
    "tokenizer.ggml.bos_token_id": 3,
    "tokenizer.ggml.eos_token_id": 3,
}


def small(**fields: object) -> Tokenizer:
    return tokenizer_from_gguf(SMALL | {f"tokenizer.ggml.{k}": v for k, v in fields.items()})


def streamed(ids: list[int], skip_special: bool = True) -> list[str]:
    stream = TOKENIZER.stream(skip_special)
    return [*map(stream.push, ids), stream.finish()]


@pytest.mark.parametrize("pre", ["smollm", "gpt-2", "qwen2", "llama-bpe"])
def test_ids_of_forty_awkward_strings_equal_llama_cpps(pre: str) -> None:
    tokenizer = tokenizer_from_gguf(SMOLLM2 | {"tokenizer.ggml.pre": pre})
    ids = [tokenizer.encode(entry["text"], add_bos=False) for entry in AWKWARD]
    assert ids == [entry["ids"][pre] for entry in AWKWARD]


def test_smollm_never_merges_digits() -> None:
    digits = {"tokens": ["1", "2", "12"], "merges": ["1 2"], "token_type": None, "scores": None}
    ids = {"bos_token_id": None, "eos_token_id": None}
    assert [small(pre=p, **digits, **ids).encode("12") for p in ("smollm", "gpt-2")] == [
        [0, 1],
        [2],
    ]


def test_llama_bpe_takes_a_word_that_is_a_token_without_merges() -> None:
    words = {"tokens": ["a", "b", "ab", "aba", "x"], "token_type": None}
    ids = [small(pre=p, **words).encode("aba", add_bos=False) for p in ("llama-bpe", "gpt-2")]
    assert ids == [[3], [2, 0]]


@pytest.mark.parametrize("text", [entry["text"] for entry in AWKWARD])
def test_awkward_strings_survive_a_round_trip(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text), skip_special=False) == text


@given(st.text(st.characters(max_codepoint=0x3FFFF, exclude_categories=["Cs", "Cc"]), max_size=40))
def test_plain_text_survives_a_round_trip(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text, special=False)) == text


@given(st.lists(st.sampled_from(["<|im_end|>", "<|im_", "end|>", "<", "|>", " ", "\n", "x"])))
def test_plain_text_never_becomes_a_control_token(parts: list[str]) -> None:
    ids = TOKENIZER.encode("".join(parts), special=False)
    assert min(ids, default=N) >= 17
    assert TOKENIZER.decode(ids) == "".join(parts)


def test_no_token_shows_the_marks_that_stand_for_bytes() -> None:
    stream = TOKENIZER.stream(skip_special=False)
    text = "".join(map(stream.push, range(N))) + stream.finish()
    assert not set(text) & set("ĠĊĉ▁")


def test_a_token_of_any_length_is_decoded_whole() -> None:
    long = "x" * 2_000_000
    tokenizer = small(tokens=["a", "b", "ab", "<end>", long])
    assert tokenizer.decode([0, 4, 1]) == f"a{long}b"
    stream = tokenizer.stream()
    assert stream.push(4) + stream.finish() == long


def test_a_byte_without_a_token_is_left_out() -> None:
    assert TOKENIZER.encode("a\x06b") == TOKENIZER.encode("a") + TOKENIZER.encode("b")


def test_control_tokens_in_a_prompt_are_parsed() -> None:
    assert TOKENIZER.encode("<|im_start|><|im_end|>") == [1, 2]


def test_control_tokens_are_left_out_of_text_unless_wanted() -> None:
    ids = TOKENIZER.encode("a<|im_end|>b")
    assert [TOKENIZER.decode(ids), TOKENIZER.decode(ids, False)] == ["ab", "a<|im_end|>b"]


def test_user_defined_tokens_are_parsed_and_are_part_of_the_text() -> None:
    ids = small().encode("ab<mark>a", special=False)
    assert (ids, small().decode(ids)) == ([2, 4, 0], "ab<mark>a")


def test_smollm2_text_gets_no_beginning() -> None:
    assert TOKENIZER.encode("The capital of France is") == [504, 3575, 282, 4649, 314]


def test_every_kind_of_ending_is_collected() -> None:
    assert TOKENIZER.eos_ids == {0, 2}
    assert small(eot_token_id=1, eom_token_id=2).eos_ids == {1, 2, 3}


@pytest.mark.parametrize("text", ["ab", "<end>ab"])
def test_text_begins_once_if_the_file_says_so(text: str) -> None:
    assert small(add_bos_token=True).encode(text) == [3, 2]


def test_a_callers_word_on_the_beginning_counts() -> None:
    assert small(add_bos_token=True).encode("ab", add_bos=False) == [2]
    assert small(add_bos_token=False).encode("ab", add_bos=True) == [3, 2]


@pytest.mark.parametrize("pre", ["smollm", "gpt-2", "qwen2"])
def test_text_of_vocabularies_like_gpt2s_does_not_begin(pre: str) -> None:
    assert small(pre=pre).encode("ab") == [2]


def test_llama_bpe_begins_unless_the_file_says_otherwise() -> None:
    assert small(pre="llama-bpe").encode("ab") == [3, 2]
    assert small(pre="llama-bpe", add_bos_token=False).encode("ab") == [2]


def test_text_ends_if_the_file_says_so() -> None:
    assert small(add_eos_token=True).encode("ab") == [2, 3]


def test_a_beginning_that_the_model_lacks_is_refused() -> None:
    with pytest.raises(InputError, match="no beginning-of-sequence token"):
        small(bos_token_id=None).encode("ab", add_bos=True)


@given(st.lists(st.integers(0, N - 1) | st.sampled_from(BYTES), max_size=40), st.booleans())
def test_streamed_text_equals_decoded_text(ids: list[int], skip_special: bool) -> None:
    assert "".join(streamed(ids, skip_special)) == TOKENIZER.decode(ids, skip_special)


@given(st.text(st.sampled_from("aé你👍👩‍🚀🇫"), max_size=12))
def test_a_streamed_piece_never_shows_a_broken_character(text: str) -> None:
    pieces = streamed(TOKENIZER.encode(text))
    assert "\ufffd" not in "".join(pieces)
    assert pieces[-1] == ""


def test_bytes_that_never_became_a_character_come_at_the_end() -> None:
    ids = TOKENIZER.encode("a𓀀")[:-1]
    assert ["".join(streamed(ids)[:-1]), streamed(ids)[-1]] == ["a", "\ufffd"]


@pytest.mark.parametrize("bad", [-1, N, 1.5, "a", None])
def test_an_id_outside_the_vocabulary_is_refused(bad: object) -> None:
    for decode in (TOKENIZER.decode, streamed):
        with pytest.raises(InputError, match=f"is not a token id: expected 0 to {N - 1}"):
            decode([bad])


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("a\ud800", r"it has U\+D800, which is no character"),
        ("a\udcff", "it has the byte 0xFF, which is not UTF-8"),
        (None, "expected a str, got NoneType"),
        (5, "expected a str, got int"),
    ],
)
def test_what_is_no_text_is_refused(bad: str, reason: str) -> None:
    with pytest.raises(InputError, match=f"is not text that can be encoded: {reason}$"):
        TOKENIZER.encode(bad)


@pytest.mark.parametrize(
    ("key", "value"),
    [("model", "t5"), ("model", "bert"), ("pre", "tekken"), ("pre", None)],
)
def test_an_unknown_vocabulary_is_refused_by_name(key: str, value: str) -> None:
    with pytest.raises(UnsupportedError, match=f"tokenizer.ggml.{key}.*{value}"):
        small(**{key: value})


BROKEN = [
    ("model", None),
    ("model", 1),
    ("tokens", None),
    ("tokens", []),
    ("tokens", ["a", 1]),
    ("tokens", ["a", "b", "ab", "a", "c"]),
    ("tokens", np.arange(5)),
    ("token_type", np.array([1, 1, 1, 3], np.int32)),
    ("token_type", np.array([1, 1, 1, 3, 4, 1], np.int32)),
    ("token_type", np.array([1, 1, 1, 3, 4], np.uint8)),
    ("token_type", np.array([1, 1, 1, 3, 7], np.int32)),
    ("token_type", "types"),
    ("scores", np.zeros(4, np.float32)),
    ("scores", np.zeros(5, np.int32)),
    ("merges", None),
    ("merges", ["ab"]),
    ("merges", ["b a"]),
    ("merges", ["a c"]),
    ("merges", [" a"]),
    ("bos_token_id", 5),
    ("bos_token_id", -1),
    ("eos_token_id", 1.5),
    ("add_bos_token", 1),
]


@pytest.mark.parametrize(("key", "value"), BROKEN)
def test_a_broken_field_is_refused_by_name(key: str, value: object) -> None:
    with pytest.raises(FormatError, match=f"^GGUF metadata: field tokenizer.ggml.{key}"):
        small(**{key: value})


def test_a_beginning_without_an_id_is_refused() -> None:
    with pytest.raises(FormatError, match=r"tokenizer\.ggml\.bos_token_id is missing"):
        small(bos_token_id=None, add_bos_token=True)


def test_a_refusal_names_the_file() -> None:
    with pytest.raises(UnsupportedError, match=r"^m\.gguf: "):
        tokenizer_from_gguf(SMALL | {"tokenizer.ggml.pre": "x"}, "m.gguf")
