"""Which tile of a product with packed weights the threads of a block share.

- Of many rows, a thread has `EACH` sums, as many partial sums beside, and what it multiplies; the
  weights of a tile are dequantised once for all of its rows.
- Products of 8-bit rows are left to matrix units; where there are none, they are not shared so.
- Of few rows, each thread has four columns of a panel and a block of K: so many threads read the
  weights at once that memory is never idle. A panel is done by as many threads as there are partial
  sums of K (`depth_parts`), and programs take more panels only where threads are left, or where
  what follows a product needs their columns together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from lamina.passes.kernels.depth_parts import DepthParts

PANEL: Final = 16
"""Columns of a packed panel."""

BLOCK: Final = 32
"""Columns of K that packed weights have in a block."""

QUADS: Final = 4
"""Threads that share a panel, of which each has four columns."""

EACH: Final = 32
"""Sums of a thread: an eighth of the registers that it can have, as many partial sums beside."""

COLUMNS: Final = 64
"""Columns of a tile of many rows, of all products together."""

ROWS: Final = 64
"""Rows of a tile of many rows, at most."""

FRAGMENT: Final = 16
"""Rows of a fragment of matrix units, and of a tile of many rows, at least."""

FEW: Final = 16
"""Rows up to which reading the weights takes longer than multiplying them."""

AT_ONCE: Final = 16
"""Threads for each row of a tile of few rows, those of all products together: so many rows share
what a thread dequantises, and find room in memory of the block."""

BUSY: Final = 6
"""Eighths of the threads that have work in a tile of few rows, at least."""


@dataclass(frozen=True)
class SharedLinear:
    """Rows `m` by columns `n` that `threads` threads share.

    With `parts`, threads have so many partial sums apart at a time.
    """

    m: int
    n: int
    threads: int
    parts: int | None = None

    @property
    def numbers(self) -> Mapping[str, int]:
        """Those that are said, by name."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def shared_linear(
    depth: int,
    counts: Sequence[int],
    products: int,
    rows: int | None,
    threads: int,
    *,
    sums: int = 1,
    pages: bool = False,
) -> SharedLinear:
    """Return the tile of `products` products of `depth` columns of K, whole blocks.

    `counts` are the panels that a program may take, ascending; there are at most `rows` rows, None
    for any number. An element has `sums` sums in the innermost loop; `pages` says that rows wait in
    memory of the block to be written one by one.
    """
    if rows is not None and rows <= FEW:
        return _few(depth, counts, products * sums, rows, threads)
    panels = _at_most(counts, max(1, COLUMNS // (PANEL * products)))
    fitting = EACH * threads // (panels * PANEL * products)
    most = min(ROWS, _power(fitting)) // (2 if pages else 1)
    return SharedLinear(max(FRAGMENT, most), panels * PANEL, threads)


def _few(depth: int, counts: Sequence[int], products: int, rows: int, threads: int) -> SharedLinear:
    parts = DepthParts.of(depth // BLOCK).count
    most = [n for n in range(1, parts + 1) if parts % n == 0]

    def shared(panels: int) -> int:
        """Return how many partial sums there are room for beside so many panels."""
        room = max(1, threads // (QUADS * panels))
        return max(n for n in most if n <= room)

    def busy(panels: int) -> int:
        return min(QUADS * panels * shared(panels), threads)

    fitting = [count for count in counts if count * QUADS <= threads] or [counts[0]]
    enough = min(max(map(busy, fitting)), threads * BUSY // 8)
    panels = next(count for count in fitting if busy(count) >= enough)
    rows = min(rows, max(1, threads // (AT_ONCE * products)))
    return SharedLinear(rows, panels * PANEL, threads, shared(panels))


def _at_most(counts: Sequence[int], most: int) -> int:
    """Return the largest count up to `most`; the smallest of all if none is."""
    return max((count for count in counts if count <= most), default=counts[0])


def _power(n: int) -> int:
    """Return the largest power of two up to a number, at least 1."""
    return 1 << max(0, n.bit_length() - 1)
