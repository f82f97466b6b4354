"""The tokenizer that GGUF metadata describes."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
import tokenizers
from tokenizers import AddedToken, decoders, models

from lamina.errors import FormatError
from lamina.frontend.config_gguf import end_ids
from lamina.frontend.fields import Fields
from lamina.frontend.pre_tokenizers import PreTokenizerRule, pre_tokenizer_rule
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
_TEMPLATE: Final = "tokenizer.chat_template"

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
    if fields.text(_MODEL) != "gpt2":
        raise fields.unsupported(_MODEL, "gpt2, byte-level BPE")
    if _PRE not in fields:
        raise fields.unsupported(_PRE, "a pre-tokeniser's name")
    rule = pre_tokenizer_rule(fields.text(_PRE), fields.where)
    tokens = _strings(fields, _TOKENS)
    types = _numbers(fields, _TYPES, np.int32, len(tokens))
    if types is not None and not 0 <= types.min() <= types.max() <= _LARGEST_TYPE:
        raise FormatError(f"{fields.where}: field {_TYPES} has a type that is not from 0 to 6")
    _numbers(fields, _SCORES, np.float32, len(tokens))
    backend = _backend(fields, tokens, rule)
    _add(backend, tokens, types)
    bos, eos = _one_id(fields, _BOS, tokens), _one_id(fields, _EOS, tokens)
    return Tokenizer(
        backend,
        bos_id=bos,
        eos_ids=end_ids(fields, len(tokens)),
        prefix=_frame(fields, "tokenizer.ggml.add_bos_token", rule.add_bos, bos, _BOS),
        suffix=_frame(fields, "tokenizer.ggml.add_eos_token", False, eos, _EOS),
        chat_template=fields.text(_TEMPLATE) if _TEMPLATE in fields else None,
        template_tokens=(
            "" if bos is None else tokens[bos],
            "" if eos is None else tokens[eos],
        ),
    )


def _backend(fields: Fields, tokens: list[str], rule: PreTokenizerRule) -> tokenizers.Tokenizer:
    vocab = {token: index for index, token in enumerate(tokens)}
    if len(vocab) < len(tokens):
        twice = next(token for index, token in enumerate(tokens) if vocab[token] != index)
        raise FormatError(f"{fields.where}: field {_TOKENS} has {shown(twice)} twice")
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
    return backend


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


def _one_id(fields: Fields, key: str, tokens: list[str]) -> int | None:
    return next(iter(fields.token_ids(key, len(tokens))), None)


def _frame(fields: Fields, key: str, default: bool, token: int | None, id_key: str) -> list[int]:
    """Return the ids that text gets at one of its ends."""
    if not fields.flag(key, default):
        return []
    if token is None:
        raise fields.fault(id_key, "a token id, since every text gets one")
    return [token]
