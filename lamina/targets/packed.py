"""Weights as a target's code takes them, apart from the files that they came from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from lamina.targets.base import Array


@dataclass(frozen=True, eq=False)
class PackedWeights(Mapping[str, Array]):
    """What `@prepare` made of a model's weights: read-only, 64-byte aligned arrays by name.

    `release` is told the name of an array that was copied, so that its pages may go.
    """

    arrays: Mapping[str, Array]
    release: Callable[[str], None] = lambda _: None

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)
