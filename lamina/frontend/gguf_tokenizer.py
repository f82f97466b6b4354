"""The tokenizer that GGUF metadata describes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
import tokenizers
from tokenizers import AddedToken, decoders, models

from lamina.errors import FormatError
from lamina.frontend.config_gguf import end_ids
from lamina.frontend.fields import Fields
from lamina.frontend.pre_tokenizers import pre_tokenizer_rule
from lamina.frontend.sentencepiece import LONGEST_TOKEN, sentencepiece
from lamina.frontend.shown import shown
from lamina.frontend.tokenizer import Tokenizer

_MODEL: Final = "tokenizer.ggml.model"
_PRE: Final = "tokenizer.ggml.pre"
_TOKENS: Final = "tokenizer.ggml.tokens"
_TYPES: Final = "tokenizer.ggml.token_type"
_SCORES: Final = "tokenizer.ggml.scores"
_MERGES: Final = "tokenizer.ggml.merges"
_BOS: Final = "tokenizer.ggml.bos_token_id"
_EOS: Final = "tokenizer.ggml.eos_token_id"
_UNKNOWN: Final = "tokenizer.ggml.unknown_token_id"
_SPACE_PREFIX: Final = "tokenizer.ggml.add_space_prefix"
_TEMPLATE: Final = "tokenizer.chat_template"

_NORMAL: Final = 1
_UNK: Final = 2
_CONTROL: Final = 3
_USER_DEFINED: Final = 4
_LARGEST_TYPE: Final = 6


def tokenizer_from_gguf(
    metadata: Mapping[str, object], where: object = "GGUF metadata"
) -> Tokenizer:
    """Return the tokenizer of a GGUF file, from its `tokenizer.` keys.

    Values are as the GGUF reader gives them: Python's numbers, bools and strings, sequences of
    strings, and NumPy arrays of the stored dtype.
    Raises `UnsupportedError` for a vocabulary or pre-tokeniser that is not implemented and
    `FormatError` for a bad field, each naming `where` and the field.
    Source: the GGUF specification, and llama.cpp for what each pre-tokeniser's name means.
    """
    fields = Fields(metadata, where)
    name = fields.text(_MODEL)
    if name not in _VOCABULARIES:
        raise fields.unsupported(_MODEL, " and ".join(_VOCABULARIES))
    tokens = _strings(fields, _TOKENS)
    vocab = {token: index for index, token in enumerate(tokens)}
    if len(vocab) < len(tokens):
        twice = next(token for index, token in enumerate(tokens) if vocab[token] != index)
        raise FormatError(f"{fields.where}: field {_TOKENS} has {shown(twice)} twice")
    types = _numbers(fields, _TYPES, np.int32, len(tokens))
    if types is not None and not 0 <= types.min() <= types.max() <= _LARGEST_TYPE:
        raise FormatError(f"{fields.where}: field {_TYPES} has a type that is not from 0 to 6")
    scores = _numbers(fields, _SCORES, np.float32, len(tokens))
    made = _VOCABULARIES[name](fields, _Listed(vocab, types, scores))
    _add(made.backend, tokens, types)
    bos, eos = (_one_id(fields, key, tokens, made.ends) for key in (_BOS, _EOS))
    return Tokenizer(
        made.backend,
        bos_id=bos,
        eos_ids={*end_ids(fields, len(tokens)), *(() if eos is None else (eos,))},
        prefix=_frame(fields, "tokenizer.ggml.add_bos_token", made.add_bos, bos, _BOS),
        suffix=_frame(fields, "tokenizer.ggml.add_eos_token", False, eos, _EOS),
        chat_template=fields.text(_TEMPLATE) if _TEMPLATE in fields else None,
        template_tokens=(
            "" if bos is None else tokens[bos],
            "" if eos is None else tokens[eos],
        ),
        vocab_size=len(tokens),
    )


@dataclass(frozen=True)
class _Listed:
    """The tokens of a file in the order of their ids, what kind each is, and how good it is."""

    vocab: dict[str, int]
    types: npt.NDArray[Any] | None
    scores: npt.NDArray[Any] | None

    def is_of(self, kind: int, index: int) -> bool:
        """Return whether there is a token of that number, and of that kind."""
        return self.types is not None and index < len(self.vocab) and self.types[index] == kind


@dataclass(frozen=True)
class _Made:
    """The tokenizer of a vocabulary, and what holds where the file does not say."""

    backend: tokenizers.Tokenizer
    add_bos: bool
    ends: Mapping[str, int]
    """The ids of the tokens at the ends of a text, by the fields that could name them."""


def _byte_level(fields: Fields, listed: _Listed) -> _Made:
    if _PRE not in fields:
        raise fields.unsupported(_PRE, "a pre-tokeniser's name")
    rule = pre_tokenizer_rule(fields.text(_PRE), fields.where)
    vocab = listed.vocab
    merges: list[tuple[str, str]] = []
    for merge in _strings(fields, _MERGES):
        left, _, right = merge.partition(" ")
        if left not in vocab or right not in vocab or left + right not in vocab:
            raise FormatError(
                f"{fields.where}: field {_MERGES} has {shown(merge)}, "
                "expected two tokens and a blank between, whose union is a token"
            )
        merges.append((left, right))
    backend = tokenizers.Tokenizer(
        models.BPE(vocab=vocab, merges=merges, ignore_merges=rule.ignore_merges)
    )
    backend.pre_tokenizer = rule.build()
    backend.decoder = decoders.ByteLevel()
    return _Made(backend, rule.add_bos, {})


def _sentencepiece(fields: Fields, listed: _Listed) -> _Made:
    vocab, types, scores = listed.vocab, listed.types, listed.scores
    tokens = list(vocab)
    if scores is None:
        raise fields.fault(_SCORES, "a score for each token")
    if not np.isfinite(scores).all():
        raise FormatError(f"{fields.where}: field {_SCORES} has a score that is not finite")
    if max(map(len, tokens)) > LONGEST_TOKEN:
        raise FormatError(
            f"{fields.where}: field {_TOKENS} has a token of more than {LONGEST_TOKEN} characters"
        )
    if types is None:
        types = np.full(len(tokens), _NORMAL, np.int32)
    unknown = _one_id(fields, _UNKNOWN, tokens, {_UNKNOWN: 0} if listed.is_of(_UNK, 0) else {})
    backend = sentencepiece(
        vocab,
        types,
        scores,
        None if unknown is None else tokens[unknown],
        fields.flag(_SPACE_PREFIX, True),
    )
    ends = {key: n for key, n in ((_BOS, 1), (_EOS, 2)) if listed.is_of(_CONTROL, n)}
    return _Made(backend, True, ends)


_VOCABULARIES: Final[Mapping[str, Callable[[Fields, _Listed], _Made]]] = {
    "gpt2": _byte_level,
    "llama": _sentencepiece,
}
"""What makes the tokenizer of each kind of vocabulary: byte-level BPE, and SentencePiece's."""


def _add(backend: tokenizers.Tokenizer, tokens: list[str], types: npt.NDArray[Any] | None) -> None:
    """Make control and user-defined tokens be found in text before it is cut."""
    if types is None:
        return
    untyped: Any = backend
    for kind, add in ((_CONTROL, untyped.add_special_tokens), (_USER_DEFINED, untyped.add_tokens)):
        found = [tokens[index] for index in np.flatnonzero(types == kind).tolist()]
        special = kind == _CONTROL
        add([AddedToken(token, special=special, normalized=False) for token in found if token])


def _strings(fields: Fields, key: str) -> list[str]:
    value = fields.values.get(key)
    if isinstance(value, Sequence) and not isinstance(value, str):
        strings = list(cast(Sequence[object], value))
        if strings and all(isinstance(string, str) for string in strings):
            return cast(list[str], strings)
    raise fields.fault(key, "a list of strings")


def _numbers(
    fields: Fields, key: str, dtype: type[np.generic], count: int
) -> npt.NDArray[Any] | None:
    value = fields.values.get(key)
    if value is None:
        return None
    if not isinstance(value, np.ndarray):
        raise fields.fault(key, f"an array of {dtype.__name__}")
    numbers = cast("npt.NDArray[Any]", value)
    if numbers.dtype != dtype or numbers.shape != (count,):
        form = f"{numbers.dtype} {list(numbers.shape)}"
        raise FormatError(
            f"{fields.where}: field {key} is {form}, expected {dtype.__name__} [{count}], "
            "one for each token"
        )
    return numbers


def _one_id(
    fields: Fields, key: str, tokens: Sequence[str], defaults: Mapping[str, int]
) -> int | None:
    return next(iter(fields.token_ids(key, len(tokens))), defaults.get(key))


def _frame(fields: Fields, key: str, default: bool, token: int | None, id_key: str) -> list[int]:
    """Return the ids that text gets at one of its ends."""
    if not fields.flag(key, default):
        return []
    if token is None:
        raise fields.fault(id_key, "a token id, since every text gets one")
    return [token]
