"""Matrix products that warpgroups have begun and not waited for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lamina.targets.reference.dtypes import Array

WARPGROUP = 128

Key = tuple[int, int]
"""The bits and the row of a register."""


@dataclass(frozen=True)
class Product:
    """A product of some warpgroups: its results' registers, its group, and what it read."""

    warpgroups: Array
    registers: tuple[Key, ...]
    group: Array
    places: Array
    octets: Array


class Products:
    """The products under way, and what accumulators hold that registers do not show yet."""

    def __init__(self, threads: int) -> None:
        self.committed: Array = np.zeros(max(threads // WARPGROUP, 1), np.int64)
        self.under_way: list[Product] = []
        self._values: dict[Key, Array] = {}
        self._hidden: dict[Key, Array] = {}
        self._threads = threads

    def seen(self, key: Key, warpgroups: Array, register: Array) -> Array:
        """Return a register (warpgroups, 128), with what products have put into it."""
        shown = register.reshape(-1, WARPGROUP)[warpgroups]
        if key not in self._values:
            return shown
        hidden, values = (
            rows[key].reshape(-1, WARPGROUP)[warpgroups] for rows in (self._hidden, self._values)
        )
        return np.where(hidden, values, shown)

    def hide(self, key: Key, warpgroups: Array, values: Array) -> None:
        """Keep values (warpgroups, 128) of a register until they are waited for."""
        if key not in self._values:
            self._values[key] = np.zeros(self._threads, values.dtype)
            self._hidden[key] = np.zeros(self._threads, np.bool_)
        self._values[key].reshape(-1, WARPGROUP)[warpgroups] = values
        self._hidden[key].reshape(-1, WARPGROUP)[warpgroups] = True

    def show(self, key: Key, warpgroups: Array, register: Array) -> None:
        """Put what was hidden into a register, unless a product is still under way for it."""
        busy = [p.warpgroups for p in self.under_way if key in p.registers]
        if busy:
            warpgroups = np.setdiff1d(warpgroups, np.concatenate(busy))
        rows = register.reshape(-1, WARPGROUP)
        rows[warpgroups] = self._values[key].reshape(-1, WARPGROUP)[warpgroups]
        self._hidden[key].reshape(-1, WARPGROUP)[warpgroups] = False

    def done(self, warpgroups: Array, newest: int) -> list[tuple[Product, Array]]:
        """Take the products of warpgroups, once `newest` groups may be left; say of which."""
        finished: list[tuple[Product, Array]] = []
        left: list[Product] = []
        waiting = np.isin(np.arange(len(self.committed)), warpgroups)
        for product in self.under_way:
            chosen = waiting[product.warpgroups]
            chosen &= product.group < self.committed[product.warpgroups] - newest
            if chosen.any():
                finished.append((product, chosen))
            if not chosen.all():
                left.append(_part(product, ~chosen))
        self.under_way = left
        return finished


def _part(product: Product, chosen: Array) -> Product:
    return Product(
        product.warpgroups[chosen],
        product.registers,
        product.group[chosen],
        product.places[chosen],
        product.octets[chosen],
    )
