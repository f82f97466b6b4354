"""Ragged batches: tokens of some sequences, one after another, as the arrays a decoder takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lamina.runtime.pages import PageIds

Integers = NDArray[np.int32]

ROLES: Final = ("tokens", "positions", "query_start", "table", "work", "rows")
"""What each input of a decoder is for; see `Batch.fill`."""

Form = list[tuple[int, int]]
"""How many tokens and wanted rows each part of a batch has."""

_ALIGNMENT: Final = 64
_WIDTH: Final = np.dtype(np.int32).itemsize


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive tokens of one sequence, the first at position `start`.

    `pages` are those of the sequence's blocks, from its first position on, and reach beyond the
    last token. Logits are wanted of the last `rows` tokens.
    """

    tokens: Sequence[int]
    start: int
    pages: PageIds
    rows: int = 0


class Batch:
    """Memory for one ragged batch at a time, which the next one writes over."""

    def __init__(self, block: int) -> None:
        """List work in blocks of `block` tokens."""
        self._block = block
        self._memory = {role: _aligned(_ALIGNMENT) for role in ROLES}
        self._form: Form | None = None
        self._inputs: dict[str, Integers] = {}
        self._pages: list[PageIds] = []
        self._table = self._memory["table"][:0].reshape(0, 0)

    def fill(self, parts: Sequence[Part]) -> dict[str, Integers]:
        """Return the inputs by role, int32, for T tokens of S `parts`.

        `tokens` and `positions` are [T]; `query_start` [S + 1] is where each part begins, and T;
        `table` [S, B] has the page of each block of positions, 0 where there is none; `work`
        [W, 2] lists (part, block of its tokens), every token once; `rows` [R] are the tokens
        whose logits are wanted.
        """
        form = [(len(part.tokens), part.rows) for part in parts]
        if form != self._form:
            self._form = None
            self._inputs = self._lay_out(form)
            self._form = form
        inputs = self._inputs
        inputs["tokens"][:] = [token for part in parts for token in part.tokens]
        inputs["positions"][:] = [part.start + n for part in parts for n in range(len(part.tokens))]
        inputs["table"] = self._tabulate([part.pages for part in parts])
        return inputs

    def _lay_out(self, form: Form) -> dict[str, Integers]:
        """Return the inputs of parts of this form, without tokens, positions and table."""
        starts, work, rows = [0], list[int](), list[int]()
        for number, (size, wanted) in enumerate(form):
            starts.append(starts[-1] + size)
            for block in range(-(-size // self._block)):
                work += (number, block)
            rows += range(starts[-1] - wanted, starts[-1])
        return {
            "tokens": self._room("tokens", starts[-1]),
            "positions": self._room("positions", starts[-1]),
            "query_start": self._put("query_start", starts),
            "work": self._put("work", work).reshape(-1, 2),
            "rows": self._put("rows", rows),
        }

    def _put(self, role: str, values: list[int]) -> Integers:
        view = self._room(role, len(values))
        view[:] = values
        return view

    def _tabulate(self, pages: list[PageIds]) -> Integers:
        if len(pages) == len(self._pages) and all(map(_same, pages, self._pages)):
            return self._table
        # An interrupt on the way must not leave the former pages with half of another table.
        self._pages = []
        width = max(map(len, pages), default=0)
        table = self._room("table", len(pages) * width).reshape(len(pages), width)
        table[:] = 0
        for row, own in zip(table, pages, strict=True):
            row[: len(own)] = own
        self._pages, self._table = pages, table
        return table

    def _room(self, role: str, count: int) -> Integers:
        if count > len(self._memory[role]):
            self._memory[role] = _aligned(2 * count)
        return self._memory[role][:count]


def _same(one: PageIds, other: PageIds) -> bool:
    return one is other


def _aligned(count: int) -> Integers:
    block = np.empty(count * _WIDTH + _ALIGNMENT, np.uint8)
    start = -block.ctypes.data % _ALIGNMENT
    return block[start : start + count * _WIDTH].view(np.int32)
