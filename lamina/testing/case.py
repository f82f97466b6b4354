"""A conformance case: a module with symbolic extents, and calls of it at several sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from lamina.testing.sheet import Arrays, Sheet

SIZES = (0, 1, 3, 31, 1000)
"""What the symbol N of a case stands for, one call after another, all with one compilation."""

SEED = 20


def symbols_of(size: int) -> Mapping[str, int]:
    """Return what N, and two symbols that grow less, are at a size."""
    return {"N": size, "M": min(size, 5), "K": min(size, 37)}


@dataclass(frozen=True)
class Case:
    """A module of many checks. `build` writes it; `symbols` are its symbols at each of `sizes`.

    Where `raises` is set, every call raises `InputError` with these words in it. With `only`, the
    module has the check of that name alone.
    """

    name: str
    build: Callable[[Sheet], None]
    sizes: tuple[int, ...] = SIZES
    symbols: Callable[[int], Mapping[str, int]] = symbols_of
    raises: str = ""
    only: str | None = None

    def sheet(self) -> Sheet:
        """Return the module with its checks, all of it written."""
        return _written(self)

    def calls(self, sheet: Sheet, size: int) -> Sequence[Arrays]:
        """Return the inputs of the calls at a size: the same ones every time."""
        rng = np.random.default_rng((SEED, size))
        if sheet.calls is not None:
            return sheet.calls(rng, size)
        return [sheet.draw(rng, self.symbols(size))]

    def alone(self, check: str) -> Case:
        """Return the case that is one of this one's checks."""
        return replace(self, only=check)


@lru_cache(maxsize=4)
def _written(case: Case) -> Sheet:
    sheet = Sheet(case.only)
    case.build(sheet)
    return sheet
