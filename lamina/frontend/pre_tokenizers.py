"""How the pre-tokenisers that GGUF files name cut a text before byte-level merges."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tokenizers import Regex
from tokenizers.pre_tokenizers import ByteLevel, Digits, PreTokenizer, Sequence, Split

from lamina.errors import UnsupportedError


@dataclass(frozen=True)
class PreTokenizerRule:
    """A pre-tokeniser, and how its vocabularies are used."""

    build: Callable[[], PreTokenizer]
    ignore_merges: bool = False
    """Whether a whole word that is a token is taken without regard to merges."""
    add_bos: bool = False
    """Whether text gets a beginning-of-sequence token where the file does not say."""


def pre_tokenizer_rule(name: str, origin: str) -> PreTokenizerRule:
    """Return the rule called `name`; `UnsupportedError`, beginning with `origin`, if unknown."""
    if name not in _RULES:
        known = ", ".join(sorted(_RULES))
        raise UnsupportedError(
            f"{origin}: tokenizer.ggml.pre is {name!r}, a pre-tokeniser that Lamina does not know: "
            f"it knows {known}"
        )
    return _RULES[name]


def _byte_level() -> PreTokenizer:
    return ByteLevel(add_prefix_space=False, use_regex=True)


def _digits_apart() -> PreTokenizer:
    return Sequence([Digits(individual_digits=True), _byte_level()])


def _split_by(digits: str) -> Callable[[], PreTokenizer]:
    """Cut as tiktoken's cl100k does, with runs of numerals matched by `digits`."""
    pattern = (
        r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
        rf"|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )

    def build() -> PreTokenizer:
        words = Split(Regex(pattern), "isolated")
        return Sequence([words, ByteLevel(add_prefix_space=False, use_regex=False)])

    return build


_DIGITS_APART: Final = PreTokenizerRule(_digits_apart)
_BYTE_LEVEL: Final = PreTokenizerRule(_byte_level)

_RULES: Final[dict[str, PreTokenizerRule]] = {
    "command-r": _DIGITS_APART,
    "gpt-2": _BYTE_LEVEL,
    "gpt2": _BYTE_LEVEL,
    "llama-bpe": PreTokenizerRule(_split_by(r"\p{N}{1,3}"), ignore_merges=True, add_bos=True),
    "qwen2": PreTokenizerRule(_split_by(r"\p{N}")),
    "refact": _DIGITS_APART,
    "smollm": _DIGITS_APART,
    "starcoder": _DIGITS_APART,
}
