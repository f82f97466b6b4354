"""Which threads execute an instruction."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from lamina.targets.reference.dtypes import Array
from lamina.testing.ptx.clocks import WARP


class Lanes:
    """A set of threads, as a mask over all of them. Immutable."""

    def __init__(self, mask: Array) -> None:
        self.mask = mask
        self.count = int(np.count_nonzero(mask))
        self.full = self.count == len(mask)
        self.where: Any = True if self.full else mask

    @cached_property
    def index(self) -> Array:
        """The numbers of the threads, ascending."""
        return np.flatnonzero(self.mask)

    @cached_property
    def by_warp(self) -> Array:
        """The mask, a row for each warp."""
        return self.mask.reshape(-1, WARP)

    @cached_property
    def bits(self) -> Array:
        """For each warp a word with the bits of the threads that are in the set."""
        packed = np.packbits(self.by_warp, axis=1, bitorder="little")
        return packed.view(np.uint32).ravel()

    def pick(self, values: Any) -> Any:
        """Return the elements of these threads, of an array over all threads or of a scalar."""
        if np.ndim(values) == 0:
            return np.broadcast_to(values, self.count)
        return values if self.full else values[self.index]

    def narrow(self, condition: Array) -> Lanes:
        """Return those for which a condition holds."""
        mask = self.mask & condition
        return self if int(np.count_nonzero(mask)) == self.count else Lanes(mask)

    def without(self, others: Lanes) -> Lanes:
        """Return those that are not among `others`."""
        return Lanes(self.mask & ~others.mask)

    def joined(self, others: Lanes) -> Lanes:
        """Return these and others."""
        return Lanes(self.mask | others.mask)
