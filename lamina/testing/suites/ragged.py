"""Cases of paged caches and ragged batches: sequences that grow over several calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import SSAValue

from lamina.dialects import cache
from lamina.dialects.cache import PagesType
from lamina.dialects.dims import Dim
from lamina.frontend.decoder import Decoder
from lamina.frontend.model import ModelConfig
from lamina.testing.case import Case
from lamina.testing.ragged import PAGE, Sequences
from lamina.testing.sheet import Arrays, Sheet
from lamina.testing.values import normal

SIZES = (0, 1, 3, 31)
T = Dim.symbol("T")

HALVES = 4e-3
"""How far numbers around 1 may be off where a target keeps pages in f16."""

ROLES: Mapping[str, tuple[str, ...]] = {
    "positions": ("T",),
    "query_start": ("S + 1",),
    "table": ("S", "B"),
    "work": ("W", "2"),
}


def cases() -> Iterator[Case]:
    """Yield the cases of pages written, read and attended to, whole and in parts."""
    yield Case("pages", _pages, SIZES)
    yield Case("page-attention", partial(_attention, 4, 2), SIZES)
    yield Case("page-attention-of-one-head", partial(_attention, 3, 1), SIZES)
    yield Case("attention-in-parts", _in_parts, SIZES)


def growth(size: int) -> list[dict[str, int]]:
    """Return how many tokens each call adds: prefills, single tokens, and both at once."""
    return [{"a": size, "b": 5}, {"b": 1}, {"c": 17, "a": 1, "b": 1}, {"b": 3, "c": 1}]


def ragged(sheet: Sheet, extra: Mapping[str, tuple[int, ...]]) -> None:
    """Let a sheet's calls be those of growing sequences, with normal inputs [T, ...] besides."""

    def calls(rng: np.random.Generator, size: int) -> Sequence[Arrays]:
        sequences = Sequences(rng)
        found: list[Arrays] = []
        for counts in growth(size):
            batch = sequences.grow(counts)
            tokens = len(batch["positions"])
            more = {
                name: normal(rng, np.dtype(np.float32), (tokens, *shape))
                for name, shape in extra.items()
            }
            found.append({**batch, **more})
        return found

    sheet.calls = calls


def _batch(sheet: Sheet) -> dict[str, SSAValue]:
    return {name: sheet.input(name, i32, dims, name) for name, dims in ROLES.items()}


def _pool(sheet: Sheet, name: str, heads: int, width: int) -> SSAValue:
    return sheet.state(name, PagesType.of(f32, "pages", heads, PAGE, width, 0))


def _pages(sheet: Sheet) -> None:
    batch = _batch(sheet)
    x = sheet.input("x", f32, ["T", 2, 16])
    sequence = sheet.compute("sequence", cache.SequenceOp(batch["query_start"], T))
    place = (batch["positions"], sequence, batch["table"])
    pool = sheet.add(cache.WriteOp(_pool(sheet, "x.0", 2, 16), x, *place))
    sheet.update("x.0", pool)
    sheet.compute("read", cache.ReadOp(pool, *place), atol=HALVES)
    ragged(sheet, {"x": (2, 16)})


def _attention(heads: int, groups: int, sheet: Sheet) -> None:
    batch = _batch(sheet)
    q = sheet.input("q", f32, ["T", heads, 32])
    sequence = sheet.add(cache.SequenceOp(batch["query_start"], T))
    place = (batch["positions"], sequence, batch["table"])
    pools: list[SSAValue] = []
    for name in "kv":
        x = sheet.input(name, f32, ["T", groups, 32])
        pools.append(sheet.add(cache.WriteOp(_pool(sheet, f"{name}.0", groups, 32), x, *place)))
        sheet.update(f"{name}.0", pools[-1])
    ragged_batch = (batch["positions"], batch["query_start"], batch["table"], batch["work"])
    op = cache.AttentionOp(q, pools[0], pools[1], ragged_batch, scale=32**-0.5, block=1)
    sheet.compute("attention", op, atol=HALVES)
    ragged(sheet, {"q": (heads, 32), "k": (groups, 32), "v": (groups, 32)})


def _in_parts(sheet: Sheet) -> None:
    config = ModelConfig("llama", 8, 64, 64, 64, 1, 4, 2, 16, 1e-5, "silu")
    decoder = Decoder.begin(sheet, config)
    q, k, v = (sheet.input(n, f32, ["T", h, 16]) for n, h in (("q", 4), ("k", 2), ("v", 2)))
    y = decoder.attention(0, q, k, v)
    sheet.check("attention", y, atol=HALVES, of="cache.attention")
    ragged(sheet, {"q": (4, 16), "k": (2, 16), "v": (2, 16)})
    plain = sheet.calls
    assert plain is not None

    def calls(rng: np.random.Generator, size: int) -> Sequence[Arrays]:
        return [_with_tokens(inputs) for inputs in plain(rng, size)]

    sheet.calls = calls


def _with_tokens(inputs: Arrays) -> Arrays:
    count = len(inputs["positions"])
    return {
        **inputs,
        "tokens": np.zeros(count, np.int32),
        "rows": np.arange(count, dtype=np.int32),
    }
