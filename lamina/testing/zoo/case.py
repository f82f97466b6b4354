"""What one program of the zoo comes with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


class ZooRun(NamedTuple):
    """One call: the kernel's memrefs in order, its symbols (`workers` apart), and the results.

    Memory that a kernel writes holds NaN or another poison before. `expected` gives the values
    after the run by the memref's position; NaN stands for memory that stays unwritten.
    """

    memrefs: list[Array]
    symbols: Mapping[str, int]
    expected: Mapping[int, Array]


@dataclass(frozen=True)
class ZooCase:
    """A program, and how to make calls of it at each of `sizes`.

    A result may be off by `tolerance` times the largest expected magnitude (at least 1). Where
    `error` is set, the run raises InputError naming it.
    """

    name: str
    path: Path
    make: Callable[[np.random.Generator, int], ZooRun]
    sizes: tuple[int, ...] = (0, 1, 3, 31)
    tolerance: float = 2e-6
    error: str = ""


def normal(rng: np.random.Generator, *shape: int) -> Array:
    """Return standard normal float32 values."""
    return rng.standard_normal(shape).astype(np.float32)


def blank(*shape: int) -> Array:
    """Return float32 memory in which nothing is written yet: NaN."""
    return np.full(shape, np.nan, np.float32)
