"""Ragged batches: sequences that grow over calls, their pages in an order of chance."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from lamina.targets.reference.dtypes import Array

PAGE = 16
"""Positions in a page."""

PAGES = 12
"""Pages in a pool."""


class Sequences:
    """What has been said so far in each of some sequences: how long, and on which pages."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._free = [int(page) for page in rng.permutation(PAGES)]
        self._pages: dict[str, list[int]] = {}
        self._lengths: dict[str, int] = {}

    def grow(self, counts: Mapping[str, int]) -> dict[str, Array]:
        """Return the inputs that append so many tokens to these sequences, in this order.

        `positions` [T], `query_start` [S + 1], `table` [S, B], and `work` [W, 2] of one token an
        entry; all i32.
        """
        positions: list[int] = []
        starts = [0]
        for name, count in counts.items():
            start = self._lengths.get(name, 0)
            self._lengths[name] = start + count
            positions += range(start, start + count)
            starts.append(len(positions))
            pages = self._pages.setdefault(name, [])
            while len(pages) * PAGE < start + count:
                pages.append(self._free.pop())
        query_start = np.array(starts, np.int32)
        return {
            "positions": np.array(positions, np.int32),
            "query_start": query_start,
            "table": self._table(list(counts)),
            "work": work_list(query_start, 1),
        }

    def _table(self, names: list[str]) -> Array:
        widest = max((len(self._pages[name]) for name in names), default=0)
        table = np.zeros((len(names), widest), np.int32)
        for row, name in zip(table, names, strict=True):
            row[: len(self._pages[name])] = self._pages[name]
        return table


def work_list(starts: Array, block: int) -> Array:
    """Return entries (sequence, query block) for tokens of sequences that begin at `starts`."""
    sizes = [int(size) for size in np.diff(starts)]
    entries = [(s, b) for s, size in enumerate(sizes) for b in range(-(-size // block))]
    return np.array(entries, np.int32).reshape(-1, 2)
