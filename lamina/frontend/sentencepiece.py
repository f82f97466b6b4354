"""Vocabularies of SentencePiece's BPE in GGUF: tokens with scores, from which merges follow.

Source: llama.cpp, whose merging prefers the token with the best score. A blank is written "▁".
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import tokenizers
from tokenizers import decoders, models, normalizers

from lamina.frontend.merge_cache import digest_of, find_merges, keep_merges

Array = npt.NDArray[Any]

LONGEST_TOKEN: Final = 512
"""Characters of a token; how it is made of others takes time by their square."""
_BLANK: Final = "▁"
_MERGED_TYPES: Final = (1, 4)
"""Normal and user-defined tokens."""
_MANY: Final = 2**15
"""From so many tokens on their merges are kept on disk."""


def sentencepiece(
    vocab: Mapping[str, int], types: Array, scores: Array, unknown: str | None, space_prefix: bool
) -> tokenizers.Tokenizer:
    """Return the tokenizer of `vocab`, in the order of its ids; `types` and `scores` are by id.

    What has no token is spelled in bytes, else it is `unknown`. `space_prefix` puts a blank before
    every text, which decoding takes off again.
    """
    pairs = _known_merges(vocab, types, scores)
    tokens = list(vocab)
    left, right = (map(tokens.__getitem__, side) for side in pairs.T.tolist())
    backend = tokenizers.Tokenizer(
        models.BPE(
            vocab=dict(vocab),
            merges=list(zip(left, right, strict=True)),
            unk_token=unknown,
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    blanks: list[normalizers.Normalizer] = [normalizers.Replace(" ", _BLANK)]
    parts: list[decoders.Decoder] = [
        decoders.Replace(_BLANK, " "),
        decoders.ByteFallback(),
        decoders.Fuse(),
    ]
    if space_prefix:
        blanks.insert(0, normalizers.Prepend(_BLANK))
        parts.append(decoders.Strip(" ", 1, 0))
    backend.normalizer = normalizers.Sequence(blanks)
    backend.decoder = decoders.Sequence(parts)
    return backend


def merges_of(vocab: Mapping[str, int], types: Array, scores: Array) -> npt.NDArray[np.int32]:
    """Return the pairs of token ids that may be merged, the best first: int32 [n, 2].

    Every way to cut a normal or user-defined token into two tokens is a merge. Those of a better
    score come first, then those of a smaller id, then those with the shorter left token.
    """
    found = np.array(list(_cuts(vocab, types)), np.int32).reshape(-1, 3)
    order = np.lexsort((found[:, 0], -scores[found[:, 0]].astype(np.float64)))
    return np.ascontiguousarray(found[order, 1:])


def _cuts(vocab: Mapping[str, int], types: Array) -> Iterator[tuple[int, int, int]]:
    """Yield each token with the ids of its two parts, by id and then by the left one's length."""
    merged = np.isin(types, _MERGED_TYPES).tolist()
    for token, index in vocab.items():
        for end in range(1, len(token) if merged[index] else 0):
            left = vocab.get(token[:end])
            if left is not None and (right := vocab.get(token[end:])) is not None:
                yield index, left, right


def _known_merges(vocab: Mapping[str, int], types: Array, scores: Array) -> npt.NDArray[np.int32]:
    if len(vocab) < _MANY:
        return merges_of(vocab, types, scores)
    digest = digest_of(vocab, types, scores)
    merges = find_merges(digest)
    if merges is None:
        merges = merges_of(vocab, types, scores)
        keep_merges(digest, merges)
    return merges
