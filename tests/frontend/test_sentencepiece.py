"""SentencePiece vocabularies in GGUF, by a small one that was made from this project's pages.

The golden ids are those of llama.cpp, with a blank before every text and without.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lamina.errors import FormatError
from lamina.frontend.gguf_tokenizer import tokenizer_from_gguf
from lamina.frontend.sentencepiece import merges_of
from lamina.frontend.tokenizer import Tokenizer

GOLDEN = Path(__file__).parent.parent / "golden"
KEY = "tokenizer.ggml."
TEXTS = json.loads((GOLDEN / "sentencepiece_tokens.json").read_text())


def vocabulary() -> dict:
    metadata = json.loads((GOLDEN / "sentencepiece_vocab.json").read_text())
    types = np.array(metadata[f"{KEY}token_type"], np.int32)
    scores = np.array(metadata[f"{KEY}scores"], np.float32)
    return metadata | {f"{KEY}token_type": types, f"{KEY}scores": scores}


VOCABULARY = vocabulary()
TOKENS = VOCABULARY[f"{KEY}tokens"]
TOKENIZERS = {
    name: tokenizer_from_gguf(VOCABULARY | {f"{KEY}add_space_prefix": name == "prefix"})
    for name in ("prefix", "bare")
}
PREFIX, BARE = TOKENIZERS.values()
N = len(TOKENS)
BYTES = range(3, 259)

SMALL = {
    f"{KEY}model": "llama",
    f"{KEY}tokens": ["<unk>", "<s>", "</s>", "▁", "a", "b", "ab", "▁ab", "▁a"],
    f"{KEY}token_type": np.array([2, 3, 3, 1, 1, 1, 1, 1, 1], np.int32),
    f"{KEY}scores": np.array([0, 0, 0, -9, -9, -9, -1, -2, -3], np.float32),
}


def small(**fields: object) -> Tokenizer:
    return tokenizer_from_gguf(SMALL | {KEY + key: value for key, value in fields.items()})


def streamed(
    tokenizer: Tokenizer, ids: list[int], after: list[int] | None = None, *, skip: bool = False
) -> list[str]:
    stream = tokenizer.stream(skip, after or [])
    return [*map(stream.push, ids), stream.finish()]


@pytest.mark.parametrize("name", TOKENIZERS)
def test_ids_of_awkward_strings_equal_llama_cpps(name: str) -> None:
    ids = [TOKENIZERS[name].encode(entry["text"], add_bos=False) for entry in TEXTS]
    assert ids == [entry["ids"][name] for entry in TEXTS]


def test_a_text_begins_with_a_blank_unless_the_file_says_otherwise() -> None:
    assert small().encode("ab", add_bos=False) == [7]
    assert small(add_space_prefix=False).encode("ab", add_bos=False) == [6]


def test_a_text_after_a_control_token_begins_with_a_blank_too() -> None:
    assert small().encode("a<s>ab") == [1, 8, 1, 7]


def test_a_text_gets_the_beginning_that_a_file_need_not_name() -> None:
    assert small().encode("ab") == [1, 7]
    assert small(add_bos_token=False).encode("ab") == [7]
    assert (small().bos_id, small().eos_ids) == (1, {2})


def test_tokens_that_are_not_control_are_no_ends() -> None:
    types = np.array([1, 1, 1, 1, 1, 1, 1, 1, 1], np.int32)
    plain = small(token_type=types, add_bos_token=False)
    assert (plain.bos_id, plain.eos_ids) == (None, set())


@pytest.mark.parametrize(("scores", "ids"), [((-1, -2), [6, 5]), ((-2, -1), [3, 7])])
def test_the_best_score_merges_first(scores: tuple[int, int], ids: list[int]) -> None:
    tokens = ["<unk>", "<s>", "</s>", "a", "b", "c", "ab", "bc", "x"]
    values = np.array([0] * 6 + [*scores, 0], np.float32)
    tokenizer = small(tokens=tokens, scores=values, add_space_prefix=False)
    assert tokenizer.encode("abc", add_bos=False) == ids


def test_merges_are_by_score_then_id_then_the_shorter_left_token() -> None:
    vocab = {token: n for n, token in enumerate(["a", "b", "ab", "ba", "aba", "x"])}
    merges = merges_of(vocab, np.array([1, 1, 1, 1, 4, 5]), np.float32([0, 0, -1, -1, 0, 0]))
    assert merges.tolist() == [[0, 3], [2, 0], [0, 1], [1, 0]]


def test_what_has_no_token_is_spelled_in_bytes_or_unknown() -> None:
    assert [TOKENS[n] for n in BARE.encode("€", add_bos=False)] == ["<0xE2>", "<0x82>", "<0xAC>"]
    assert small().encode("a€€b", add_bos=False) == [8, 0, 5]


@given(st.lists(st.sampled_from(["<|im_end|>", "<|im_", "end|>", "</s>", " ", "x"])))
def test_plain_text_never_becomes_a_control_token(parts: list[str]) -> None:
    ids = BARE.encode("".join(parts), special=False, add_bos=False)
    assert not any(BARE.is_control(token) for token in ids)
    assert BARE.decode(ids) == "".join(parts)


@given(st.text(st.characters(max_codepoint=0x3FFFF, exclude_categories=["Cs"]), max_size=40))
def test_plain_text_survives_a_round_trip(text: str) -> None:
    text = text.replace("▁", "_")
    assert BARE.decode(BARE.encode(text, special=False, add_bos=False)) == text


@given(st.text(st.sampled_from("abé👍. "), max_size=20))
def test_the_blank_before_a_text_is_not_decoded(text: str) -> None:
    text = text.replace("  ", " .")
    assert PREFIX.decode(PREFIX.encode(text, special=False)) == text


IDS = st.lists(st.integers(0, N - 1) | st.sampled_from([*BYTES, 1, 266]), max_size=30)


@pytest.mark.parametrize("name", TOKENIZERS)
@given(ids=IDS, skip=st.booleans())
@example(ids=[105, 266, 150], skip=True)
def test_streamed_text_equals_decoded_text(name: str, ids: list[int], skip: bool) -> None:
    tokenizer = TOKENIZERS[name]
    assert "".join(streamed(tokenizer, ids, skip=skip)) == tokenizer.decode(ids, skip)


@given(st.text(st.sampled_from("aé你👍👩‍🚀🇫€"), max_size=12))
def test_a_streamed_piece_never_shows_a_broken_character(text: str) -> None:
    pieces = streamed(BARE, BARE.encode(text, add_bos=False))
    assert "\ufffd" not in "".join(pieces)
    assert "".join(pieces) == text


def test_a_continuation_keeps_the_blank_that_a_text_of_its_own_has_not() -> None:
    world = PREFIX.encode("world", add_bos=False)
    assert "".join(streamed(PREFIX, world)) == "world"
    assert "".join(streamed(PREFIX, world, PREFIX.encode("Hello"))) == " world"
    assert "".join(streamed(PREFIX, world, PREFIX.encode("Hello</s>"))) == "world"


@given(st.text(st.sampled_from("ab é👍€."), min_size=1), st.integers(0, 20))
@example(".€€€ ", 11)
def test_a_continuation_adds_what_the_whole_text_has_more(text: str, cut: int) -> None:
    ids = PREFIX.encode(text, special=False)
    before = PREFIX.decode(ids[: cut + 1])
    if not before.endswith("\ufffd"):
        rest = "".join(streamed(PREFIX, ids[cut + 1 :], ids[: cut + 1]))
        assert before + rest == PREFIX.decode(ids)


def test_a_tokenizer_can_be_written_down() -> None:
    again = Tokenizer.from_bytes(PREFIX.to_bytes())
    texts = [entry["text"] for entry in TEXTS]
    assert [again.encode(text) for text in texts] == [PREFIX.encode(text) for text in texts]
    assert (again.vocab_size, again.decode([*BYTES])) == (N, PREFIX.decode([*BYTES]))


BROKEN = [
    ("scores", None),
    ("scores", np.full(9, np.nan, np.float32)),
    ("scores", np.zeros(8, np.float32)),
    ("tokens", ["<unk>", "<s>", "</s>", "▁", "a", "b", "ab", "▁ab", "a"]),
    ("tokens", ["<unk>", "<s>", "</s>", "▁", "a", "b", "ab", "▁ab", "a" * 513]),
    ("add_space_prefix", 1),
    ("unknown_token_id", 9),
    ("bos_token_id", -1),
]


@pytest.mark.parametrize(("key", "value"), BROKEN)
def test_a_broken_field_is_refused_by_name(key: str, value: object) -> None:
    with pytest.raises(FormatError, match=f"^GGUF metadata: field {KEY}{key}"):
        small(**{key: value})
