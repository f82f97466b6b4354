"""Dimensions that every operation of a group goes along together, as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from xdsl.ir import SSAValue

from lamina.dialects.dims import Dim, product
from lamina.dialects.tensors import extents
from lamina.passes.kernels.axes import Axes, Axis

Run = tuple[int, ...]
"""Neighbouring dimensions of a value that become one."""

Key = tuple[Axis, ...]
"""What stands for a run, and for all that are the same."""


class Runs:
    """What the dimensions of values become: runs of them; those of one element alone vanish."""

    def __init__(self, axes: Axes, values: Sequence[SSAValue]) -> None:
        self._axes = axes
        self._apart, self._leading = axes.apart(), axes.leading()
        special = self._apart | self._leading
        self._runs: dict[SSAValue, list[Run]] = {
            value: [
                (d,)
                for d, n in enumerate(extents(value.type))
                if n != 1 or axes.family((value, d)) in special
            ]
            for value in values
        }
        while self._join():
            pass

    def of(self, value: SSAValue) -> list[Run]:
        """Return the runs of a value."""
        return self._runs[value]

    def all(self) -> Iterator[tuple[SSAValue, Run]]:
        """Yield each value's runs."""
        for value, runs in self._runs.items():
            for run in runs:
                yield value, run

    def place(self, value: SSAValue, d: int) -> int:
        """Return the place of the run that a dimension is in."""
        return next(i for i, run in enumerate(self._runs[value]) if d in run)

    def key(self, value: SSAValue, run: Run) -> Key:
        """Return what stands for a run."""
        return tuple(self._axes.of((value, d)) for d in run)

    def extent(self, value: SSAValue, run: Run) -> Dim:
        """Return how many elements a run has."""
        shape = extents(value.type)
        return product(tuple(shape[d] for d in run))

    def _names(self, value: SSAValue) -> list[Key]:
        family = self._axes.family
        return [tuple(family((value, d)) for d in run) for run in self._runs[value]]

    def _join(self) -> bool:
        """Make one of two runs that are neighbours wherever one of them is, if there are such."""
        names = {value: self._names(value) for value in self._runs}
        pairs = dict.fromkeys(pair for each in names.values() for pair in pairwise(each))
        for a, b in pairs:
            if self._may_join(a, b) and all(_beside(each, a, b) for each in names.values()):
                for value, each in names.items():
                    self._runs[value] = _joined(self._runs[value], each, a)
                return True
        return False

    def _may_join(self, a: Key, b: Key) -> bool:
        apart = self._apart.intersection((*a, *b))
        return a != b and not apart and b[0] not in self._leading


def _beside(names: list[Key], a: Key, b: Key) -> bool:
    """Whether `b` follows each `a`, and nothing else does `b`."""
    follows = {i + 1 for i, name in enumerate(names) if name == a}
    return follows == {i for i, name in enumerate(names) if name == b}


def _joined(runs: list[Run], names: list[Key], a: Key) -> list[Run]:
    result: list[Run] = []
    at = 0
    while at < len(runs):
        both = names[at] == a
        result.append((*runs[at], *runs[at + 1]) if both else runs[at])
        at += 2 if both else 1
    return result
