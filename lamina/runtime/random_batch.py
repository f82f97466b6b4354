"""Ragged batches of chance, to try a decoder without a text."""

from collections.abc import Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lamina.errors import InputError
from lamina.runtime.batch import Batch, Part
from lamina.runtime.decoder import names_by_role, page_size, query_block, vocabulary_size
from lamina.runtime.pools import allocate_pools
from lamina.targets.base import Array, Signature
from lamina.targets.memory_limit import check_memory

TOKENS, SEQUENCES, ROWS = "T", "S", "R"
"""The symbols that shape a batch: tokens, sequences, and rows of logits."""

_FREE: Final = (TOKENS, SEQUENCES, ROWS)
_DEFAULT: Final = {TOKENS: 8, SEQUENCES: 2}
_BYTES: Final = 64
"""At least so many bytes a token, and a sequence, take until a batch is filled."""


def random_batch(
    signature: Signature, sizes: Mapping[str, int], rng: np.random.Generator
) -> dict[str, Array]:
    """Return the inputs and the zeroed pools of a batch by name: sequences that begin.

    `sizes` may say T tokens (8), S sequences (2) and R rows of logits (the last token of each
    sequence). Tokens and lengths do not depend on how the pools are laid out; pages come in an
    order of chance. Raises `InputError` for other symbols, and for sizes that do not fit together.
    """
    lengths, rows = _shape(sizes, rng)
    vocabulary, page = vocabulary_size(signature), page_size(signature)
    counts = -(-lengths // page)
    pools = allocate_pools(signature.states, int(counts.sum()))
    tokens = [_ids(rng, vocabulary, int(length)) for length in lengths]
    order = rng.permutation(int(counts.sum())).astype(np.int32)
    pages = np.split(order, np.cumsum(counts)[:-1])
    parts = [
        Part(own_tokens, 0, own_pages, int(wanted))
        for own_tokens, own_pages, wanted in zip(tokens, pages, rows, strict=False)
    ]
    filled = Batch(query_block(signature)).fill(parts)
    return {name: filled[role] for role, name in names_by_role(signature)} | pools


def _ids(rng: np.random.Generator, vocabulary: int, count: int) -> list[int]:
    drawn: NDArray[np.int64] = rng.integers(0, vocabulary, count)
    return [int(token) for token in drawn]


def _shape(
    sizes: Mapping[str, int], rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the tokens of each sequence, and how many rows are wanted of each."""
    if other := sorted(sizes.keys() - set(_FREE)):
        raise InputError(f"a ragged batch has no free extent {other[0]}: only {', '.join(_FREE)}")
    tokens = sizes.get(TOKENS, _DEFAULT[TOKENS])
    sequences = sizes.get(SEQUENCES, min(tokens, _DEFAULT[SEQUENCES]))
    for name, count in ((TOKENS, tokens), (SEQUENCES, sequences)):
        check_memory(f"a batch of {name} = {count}", count * _BYTES)
    if tokens and not sequences:
        raise InputError(f"{tokens} tokens need at least one sequence, got {SEQUENCES} = 0")
    spread = min(tokens, sequences)
    lengths = np.zeros(sequences, np.int64)
    lengths[:spread] = 1
    if sequences:
        lengths += rng.multinomial(tokens - spread, np.full(sequences, 1 / sequences))
    if ROWS not in sizes:
        return lengths, np.minimum(lengths, 1)
    if sizes[ROWS] > tokens:
        raise InputError(f"{ROWS} is {sizes[ROWS]}, but only {tokens} tokens have logits")
    rows = rng.multivariate_hypergeometric(lengths, sizes[ROWS]) if tokens else lengths
    return lengths, rows
