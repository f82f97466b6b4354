"""Which tile of a product of two tensors the threads of a block share.

What is read of both operands for a product is least where a tile is large and nearly square; but
every multiprocessor should have one.

- Without matrix units, a thread has `EACH` sums, a quarter of the registers that it can have.
- Matrix units read their operands from shared memory, which is what they wait for: a warp has 64
  rows by 64 columns of sums, or four warps together 64 rows by as many columns as a unit takes. In
  either case a thread has 128 sums, half of its registers.
- Copies of later rounds are under way while one is multiplied: `ROUNDS` in all, since memory takes
  about as long as two rounds of a large tile.
- What follows a product is computed for a part of a tile at a time, which has room beside the sums.
- Programs that run at once go through some columns of the result for all of its rows: what they
  read of both operands together is then least, and is found in the second cache level.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Final

EACH: Final = 64
"""Sums of a thread that shares a tile."""

STEP: Final = 32
"""Columns of K that threads share at once: two steps of a matrix unit for 16-bit floats."""

SIDE, SHORT = 128, 8
"""Rows and columns of a large tile without units, for twice the threads, and columns of K at once:
what these load for a round has room beside the sums."""

BOXED: Final = 64
"""Columns of K of 16 bits that are a row of what comes as a box."""

ROUNDS: Final = 4
"""Rounds of a large tile's operands in shared memory."""

ABREAST: Final = 8
"""Tiles of columns that programs go through before the next ones."""

SIDE_BY_SIDE: Final = 8
"""Results of a row that one thread or its neighbours store in one piece."""

MULTIPROCESSORS: Final = 128
"""About as many as large GPUs have: so many tiles there should be."""

UNKNOWN: Final = 1024
"""Rows or columns of an extent that is not known: those of a prompt."""

WARP, WARPGROUP = 16, 64
"""Rows that the matrix unit of a warp takes at once, and those of four warps together."""


@dataclass(frozen=True)
class Dot:
    """A product of two tensors, as far as its tile depends on it; None for what is not known.

    Its elements are floats of 16 or 32 `bits`, or integers of 8; `whole` says that rows of both in
    memory are whole runs of what a thread loads at once, `beside` that another tensor of the
    result's extents is read; `batches` are all extents but the last two.
    """

    bits: int = 32
    whole: bool = True
    rows: int | None = None
    columns: int | None = None
    depth: int | None = None
    batches: int = 1
    beside: bool = False


@dataclass(frozen=True)
class SharedTile:
    """Rows `m` by columns `n` that `threads` threads share, `k` columns of K at once.

    The operands of `stages` rounds are in shared memory; programs go through bands of `b` columns,
    and finish a tile in `parts`. None is what is not said.
    """

    m: int
    n: int
    k: int
    threads: int
    stages: int | None = None
    b: int | None = None
    parts: int | None = None

    @property
    def numbers(self) -> dict[str, int]:
        """Those that are said, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


_LARGE: Final[Mapping[int, tuple[tuple[int, int, int, int, int], ...]]] = {
    WARP: ((128, 128, 32, 1, 2),),
    WARPGROUP: ((128, 128, 64, 1, 2), (128, 256, 64, 2, 4)),
}
"""Larger tiles of matrix units, by their rows: m, n, columns of K of 16 bits, how many times as
many threads, and the parts in which they are finished, of each of which all threads have some."""


def shared_tile(
    dot: Dot, threads: int, matrix: int, step: int, *, tf32: bool = False
) -> SharedTile:
    """Return the tile of a product for `threads` threads and units of `matrix` rows, 0 for none.

    `step` are the columns of K at once of what has no units; with `tf32`, floats of 32 bits have
    some.
    """
    fast = dot.bits < 32 or tf32
    # Operands of matrix units leave a thread room for twice the sums, and come in longer steps; but
    # not where each element has a place of its own.
    sums = EACH * threads // (1 if fast and dot.whole else 2)
    side = 1 << (sums.bit_length() - 1) // 2
    small = SharedTile(sums // side, side, _step(dot, STEP) if fast else step, threads)
    if not dot.whole or not matrix:
        return small
    if not fast:
        large = SharedTile(SIDE, SIDE, SHORT, 2 * threads, ROUNDS, _band(dot, SIDE))
        return large if _is_large(dot, SIDE, SIDE, SHORT) else small
    rows = matrix if dot.bits == 16 else WARP
    if rows == WARPGROUP and _is_even(dot, BOXED):
        # Rows of 128 bytes come as boxes, whatever the rows of the tile.
        small = replace(small, k=BOXED, stages=ROUNDS)
    fitting = [
        SharedTile(m, n, _step(dot, k), threads * times, ROUNDS, _band(dot, n), parts)
        for m, n, k, times, parts in _LARGE[rows]
        if _is_large(dot, m, n, _step(dot, k))
    ]
    return fitting[-1] if fitting else small


def _step(dot: Dot, k: int) -> int:
    """Return the columns of K whose bytes are those of `k` of 16 bits, or of bytes half of them."""
    step = k * 16 // dot.bits
    return step // 2 if dot.bits == 8 and (dot.depth or 0) % step else step


def _is_large(dot: Dot, m: int, n: int, k: int) -> bool:
    """Tell whether all multiprocessors have such a tile, and its threads room for what follows.

    Where some rows may be outside, what is read beside waits in registers for all of them.
    """
    waits = dot.beside and (dot.rows is None or dot.rows % m > 0)
    return _tiles(dot, m, n) >= MULTIPROCESSORS and _is_even(dot, k) and not waits


def _is_even(dot: Dot, k: int) -> bool:
    """Tell whether rounds of a product come out even, and results go to memory side by side."""
    if dot.depth is None or dot.columns is None:
        return False
    return dot.depth % k == 0 and dot.columns % SIDE_BY_SIDE == 0


def _tiles(dot: Dot, m: int, n: int) -> int:
    """Return how many whole tiles there are."""
    rows, columns = (UNKNOWN if size is None else size for size in (dot.rows, dot.columns))
    return rows // m * (columns // n) * dot.batches


def _band(dot: Dot, n: int) -> int | None:
    """Return the columns of a band; None where there is only one, or bands come out unequal."""
    tiles = 0 if dot.columns is None or dot.columns % n else dot.columns // n
    abreast = max((count for count in range(1, ABREAST + 1) if tiles % count == 0), default=1)
    return abreast * n if 1 < abreast < tiles else None
