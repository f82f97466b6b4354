"""Which registers of a load come from one word of memory: what is known of their places.

A place is a sum of terms, each a register times a number, and a constant. Registers whose terms are
equal are as far apart as their constants say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any, Final, cast

from xdsl.dialects import arith, scf
from xdsl.ir import BlockArgument, Operation, SSAValue

from lamina.dialects import simt, tile
from lamina.targets.shading.expressions import numbers_of
from lamina.targets.shading.printer import count_of

Register = tuple[SSAValue, int]
"""A value and the number of one of its registers."""


@dataclass(frozen=True)
class Place:
    """Terms, as registers and what they are multiplied by, and a constant."""

    terms: tuple[tuple[Register, int], ...] = ()
    constant: int = 0

    def __add__(self, other: Place) -> Place:
        """Return the sum."""
        factors: dict[Register, int] = dict(self.terms)
        for register, factor in other.terms:
            factors[register] = factors.get(register, 0) + factor
        kept = tuple((each, factor) for each, factor in factors.items() if factor)
        return Place(kept, self.constant + other.constant)

    def times(self, factor: int) -> Place:
        """Return the product with a number."""
        terms = tuple((each, n * factor) for each, n in self.terms) if factor else ()
        return Place(terms, self.constant * factor)


class Places:
    """What is known of the registers of a kernel, found out once for each."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._places: dict[Register, Place] = {}
        self._multiples: dict[Register, int] = {}

    def words(self, at: SSAValue, each: int) -> list[tuple[int, int]] | None:
        """Return of each place the number of a register in the same word, and its part of it.

        A word has `each` elements. None if it is not known where in a word the places are.
        """
        places = [self.place(at, register) for register in range(count_of(at))]
        first: dict[object, int] = {}
        found: list[tuple[int, int]] = []
        for number, place in enumerate(places):
            if self._of_terms(place) % each:
                return None
            word, part = divmod(place.constant, each)
            found.append((first.setdefault((frozenset(place.terms), word), number), part))
        return found

    def place(self, value: SSAValue, register: int) -> Place:
        """Return a register that holds an index as a sum."""
        key = (value, register)
        if key not in self._places:
            rule = _PLACES.get(cast("type[Operation]", type(value.owner)))
            found = rule(self, value.owner, register) if rule else None
            self._places[key] = Place(((key, 1),)) if found is None else found
        return self._places[key]

    def multiple(self, value: SSAValue, register: int) -> int:
        """Return a number that a register holds a multiple of; 0 if it holds 0."""
        key = (value, register if count_of(value) > 1 else 0)
        if key not in self._multiples:
            self._multiples[key] = self._multiple(*key)
        return self._multiples[key]

    def _of_terms(self, place: Place) -> int:
        return gcd(*(factor * self.multiple(*register) for register, factor in place.terms))

    def _multiple(self, value: SSAValue, register: int) -> int:
        place = self.place(value, register)
        if place.terms != (((value, register), 1),):
            return gcd(self._of_terms(place), place.constant)
        if isinstance(value, BlockArgument):
            loop = value.block.parent_op()
            if isinstance(loop, scf.ForOp) and value.index == 0:
                return gcd(*(self.multiple(each, 0) for each in (loop.lb, loop.step)))
            return 1
        owner: Any = value.owner
        if isinstance(owner, arith.MuliOp):
            return self.multiple(owner.lhs, register) * self.multiple(owner.rhs, register)
        if isinstance(owner, arith.MinSIOp | arith.MaxSIOp | tile.SelectOp | simt.UniformOp):
            chosen = owner.operands[-2:]
            return gcd(*(self.multiple(each, register) for each in chosen))
        return 1


def _constant(known: Places, op: arith.ConstantOp, register: int) -> Place:
    numbers = numbers_of(op)
    return Place((), int(numbers[register if len(numbers) > 1 else 0]))


def _sum(known: Places, op: arith.AddiOp | arith.SubiOp, register: int) -> Place:
    a, b = (known.place(each, register) for each in (op.lhs, op.rhs))
    return a + b.times(-1 if isinstance(op, arith.SubiOp) else 1)


def _product(known: Places, op: arith.MuliOp, register: int) -> Place | None:
    a, b = (known.place(each, register) for each in (op.lhs, op.rhs))
    if not b.terms:
        return a.times(b.constant)
    return None if a.terms else b.times(a.constant)


def _picked(known: Places, op: simt.PickOp, register: int) -> Place:
    return known.place(op.x, tile.values(op.at)[register])


def _splat(known: Places, op: tile.SplatOp, register: int) -> Place:
    return known.place(op.x, 0)


def _joined(known: Places, op: simt.JoinOp, register: int) -> Place | None:
    for x in op.xs:
        if register < count_of(x):
            return known.place(x, register)
        register -= count_of(x)
    return None


_PLACES: Final[Mapping[type[Operation], Callable[[Places, Any, int], Place | None]]] = {
    arith.ConstantOp: _constant,
    arith.AddiOp: _sum,
    arith.SubiOp: _sum,
    arith.MuliOp: _product,
    simt.PickOp: _picked,
    tile.SplatOp: _splat,
    simt.JoinOp: _joined,
}
"""What a register of a result is, where it is a sum or moved."""
