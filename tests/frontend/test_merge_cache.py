"""The merges of large vocabularies are kept on disk."""

from pathlib import Path

import numpy as np
import pytest

from lamina.frontend.gguf_tokenizer import tokenizer_from_gguf
from lamina.frontend.tokenizer import Tokenizer

MANY = 2**15
LETTERS = [chr(0x4E00 + n) for n in range(200)]
TOKENS = ["<unk>", *LETTERS, *(a + b for a in LETTERS for b in LETTERS)][:MANY]
TYPES = np.full(MANY, 1, np.int32)
TYPES[0] = 2
SCORES = -np.arange(MANY, dtype=np.float32)
TEXT = "".join(LETTERS[:50]) * 3


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of kept merges."""
    monkeypatch.setenv("LAMINA_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("LAMINA_DISK_CACHE", raising=False)
    return tmp_path / "cache" / "merges"


def read(scores: np.ndarray = SCORES) -> Tokenizer:
    return tokenizer_from_gguf(
        {
            "tokenizer.ggml.model": "llama",
            "tokenizer.ggml.tokens": TOKENS,
            "tokenizer.ggml.token_type": TYPES,
            "tokenizer.ggml.scores": scores,
            "tokenizer.ggml.add_bos_token": False,
        }
    )


def test_a_second_tokenizer_of_the_kept_merges_gives_the_same_ids(folder: Path) -> None:
    ids = read().encode(TEXT)
    (kept,) = folder.iterdir()
    written = kept.stat().st_mtime_ns
    assert len(ids) < len(TEXT)
    assert read().encode(TEXT) == ids
    assert kept.stat().st_mtime_ns == written


def test_other_scores_have_merges_of_their_own(folder: Path) -> None:
    first = read().encode(TEXT)
    assert read(SCORES[::-1].copy()).encode(TEXT) != first
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("damage", [lambda data: data[:-8], lambda data: data[:-1] + b"\7"])
def test_merges_that_were_changed_are_made_again(folder: Path, damage) -> None:
    ids = read().encode(TEXT)
    (kept,) = folder.iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(damage(whole))
    with pytest.warns(UserWarning, match="is not as it was written"):
        assert read().encode(TEXT) == ids
    assert kept.read_bytes() == whole


def test_a_folder_that_cannot_be_written_is_done_without(folder: Path) -> None:
    folder.parent.mkdir(mode=0o700)
    folder.write_bytes(b"in the way")
    with pytest.warns(UserWarning, match="cannot be kept"):
        assert len(read().encode(TEXT)) < len(TEXT)


def test_nothing_is_kept_where_nothing_is_to_be(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAMINA_DISK_CACHE", "off")
    read()
    assert not folder.exists()
