"""Prove facts about extents for all values of their symbols, every symbol being at least 0.

The proofs are sound and incomplete: True means that the fact holds, False that none was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import Final
from zlib import crc32

from lamina.dialects.dims import DIVISIONS, FUNCTIONS, Atom, Dim, parse_dim

_Function = tuple[str, Dim, Dim]

_MOST_STEPS: Final = 2000
"""How many extents one proof may look at before it is given up."""
_TRIED: Final = ((0,), (1,), (2, 0), (0, 7), (100, 1), (1, 99), (1000,), (5, 0, 4096))
"""Values for the symbols in turn, to see at once that most of what is not true is not."""


@lru_cache(maxsize=65536)
def proves_at_most(a: Dim, b: Dim) -> bool:
    """Return whether a <= b is proved."""
    return may_be_at_most(a, b) and _proves_positive(b - a)


def may_be_at_most(a: Dim, b: Dim) -> bool:
    """Return False if a > b for some values that are tried, which takes little time to see."""
    return not any(
        x is not None and y is not None and x > y for x, y in zip(_tried(a), _tried(b), strict=True)
    )


@lru_cache(maxsize=65536)
def _tried(d: Dim) -> tuple[int | None, ...]:
    """Return `d` for each of the values tried, and None where it divides by zero."""
    terms = [(c, [_tried_atom(atom) for atom in atoms]) for c, atoms in d.terms]
    return tuple(
        _sum([(c, [atom[i] for atom in atoms]) for c, atoms in terms]) for i in range(len(_TRIED))
    )


def _sum(terms: Iterable[tuple[int, Sequence[int | None]]]) -> int | None:
    total = 0
    for c, factors in terms:
        known = [factor for factor in factors if factor is not None]
        if len(known) < len(factors):
            return None
        total += c * prod(known)
    return total


@lru_cache(maxsize=65536)
def _tried_atom(atom: Atom) -> tuple[int | None, ...]:
    if isinstance(atom, str):
        # The same symbol has the same value in every extent.
        place = crc32(atom.encode())
        return tuple(tried[place % len(tried)] for tried in _TRIED)
    name, a, b = atom
    return tuple(
        None if x is None or y is None or (y == 0 and name in DIVISIONS) else FUNCTIONS[name](x, y)
        for x, y in zip(_tried(a), _tried(b), strict=True)
    )


def is_plainly_positive(d: Dim) -> bool:
    """Return whether no coefficient of `d` is negative, and none of its functions can be."""
    return all(
        c >= 0 and all(isinstance(atom, str) or _never_negative(atom) for atom in atoms)
        for c, atoms in d.terms
    )


def proves_multiple(a: Dim, divisor: int) -> bool:
    """Return whether it is proved that `divisor` divides `a`."""
    return all(
        c % divisor == 0 or any(_is_multiple(atom, divisor) for atom in atoms)
        for c, atoms in a.terms
    )


def _is_multiple(atom: Atom, divisor: int) -> bool:
    if isinstance(atom, str) or atom[0] not in ("min", "max"):
        return False
    return proves_multiple(atom[1], divisor) and proves_multiple(atom[2], divisor)


@lru_cache(maxsize=65536)
def _proves_positive(d: Dim) -> bool:
    """Return whether d >= 0 is proved."""
    return _Proof().positive(d)


@dataclass
class _Proof:
    """A search for reasons why extents are at least 0; it opens one function after another."""

    steps: int = _MOST_STEPS
    known: dict[Dim, bool] = field(default_factory=dict[Dim, bool])

    def positive(self, d: Dim) -> bool:
        """Return whether a proof of d >= 0 is found."""
        if d not in self.known:
            self.steps -= 1
            self.known[d] = False
            self.known[d] = self.steps > 0 and self._search(d)
        return self.known[d]

    def _search(self, d: Dim) -> bool:
        functions = _functions(d.terms)
        positive = {_named(each) for each in functions if _never_negative(each)}
        if all(c >= 0 and _all_in(atoms, positive) for c, atoms in d.terms):
            return True
        if _refuted(d):
            return False
        if any(core != d and self.positive(core) for core in _cores(d, positive)):
            return True
        # A function inside of another may cancel with it once that one is opened.
        texts = [_named(each) for each in functions]
        outer = [
            f for f, own in zip(functions, texts, strict=True) if sum(own in t for t in texts) < 2
        ]
        for each in outer:
            if each[0] in ("max", "min") or self._is_subtracted(d, each):
                return self._open(d, each)
        return any(self._open(d, each) for each in functions)

    def _is_subtracted(self, d: Dim, function: _Function) -> bool:
        split = _split(d, function)
        return split is not None and self.positive(-split[0])

    def _open(self, d: Dim, function: _Function) -> bool:
        return any(all(map(self.positive, way)) for way in _ways(d, function))


@lru_cache(maxsize=65536)
def _never_negative(function: _Function) -> bool:
    """Return whether it is proved that a function is at least 0, by what it is a function of."""
    name, a, b = function
    proof = _Proof()
    if name == "max":
        return any(map(proof.positive, sorted((a, b), key=lambda each: len(str(each)))))
    if name == "min":
        return proof.positive(a) and proof.positive(b)
    return (b.constant or 0) > 0 and (name == "mod" or proof.positive(a))


def _cores(d: Dim, positive: set[str]) -> Iterator[Dim]:
    """Yield `d` without functions that are at least 0 and may well make up for nothing.

    What has a negative coefficient can be made up for by terms of its monomial, or of functions
    of extents with it; the larger extent also has what its own functions hold.
    """
    negative = [atoms for c, atoms in d.terms if c < 0]
    own = {_names(atoms) for atoms in negative}
    # A number that is lacking is nearly everywhere, beside what else is lacking or by itself.
    yield _core(d, positive, (own - {()}) or own, _opened)
    yield _core(d, positive, own, _reached)
    yield _core(d, positive, own.union(*map(_reached, negative)), _reached)


def _core(
    d: Dim,
    positive: set[str],
    lacking: set[tuple[str, ...]],
    becomes: Callable[[tuple[Atom, ...]], frozenset[tuple[str, ...]]],
) -> Dim:
    core = Dim.of(0)
    for (c, atoms), (_, monomial) in zip(d.terms, d.monomials(), strict=True):
        plain = all(isinstance(atom, str) for atom in atoms)
        spare = c > 0 and not plain and _all_in(atoms, positive)
        if not spare or not lacking.isdisjoint(becomes(atoms)):
            core = core + monomial * c
    return core


@lru_cache(maxsize=65536)
def _reached(atoms: tuple[Atom, ...]) -> frozenset[tuple[str, ...]]:
    """Return a product of atoms as names, and what it may become as functions are opened."""
    return frozenset(_become(atoms, _reached))


@lru_cache(maxsize=65536)
def _opened(atoms: tuple[Atom, ...]) -> frozenset[tuple[str, ...]]:
    """Return a product of atoms as names, and what it may become once one function is opened."""
    return frozenset(_become(atoms, lambda own: frozenset({_names(own)})))


def _become(
    atoms: tuple[Atom, ...], inside: Callable[[tuple[Atom, ...]], frozenset[tuple[str, ...]]]
) -> Iterator[tuple[str, ...]]:
    """Yield a product as names, and with each function replaced by what is `inside` of it."""
    names = _names(atoms)
    yield names
    for atom in atoms:
        if not isinstance(atom, str):
            rest = list(names)
            rest.remove(_named(atom))
            for _, own in (term for dim in atom[1:] for term in dim.terms):
                yield from (tuple(sorted((*rest, *each))) for each in inside(own))


def _all_in(atoms: Iterable[Atom], positive: set[str]) -> bool:
    return all(isinstance(atom, str) or _named(atom) in positive for atom in atoms)


def _refuted(d: Dim) -> bool:
    """Return whether `d` is negative for some values that are tried."""
    names = sorted(d.symbols)
    for tried in _TRIED:
        try:
            if d.evaluate({name: tried[i % len(tried)] for i, name in enumerate(names)}) < 0:
                return True
        except ZeroDivisionError:
            continue
    return False


def _functions(terms: Iterable[tuple[int, tuple[Atom, ...]]]) -> list[_Function]:
    """Return the functions in `terms`, the longest text first."""
    atoms = [atom for _, atoms in terms for atom in atoms]
    found = {_named(atom): atom for atom in atoms if not isinstance(atom, str)}
    return [found[text] for text in sorted(found, key=lambda text: (-len(text), text))]


def _names(atoms: Iterable[Atom]) -> tuple[str, ...]:
    return tuple(sorted(map(_named, atoms)))


def _named(atom: Atom) -> str:
    return atom if isinstance(atom, str) else f"{atom[0]}({atom[1]}, {atom[2]})"


def _ways(d: Dim, function: _Function) -> Iterator[tuple[Dim, ...]]:
    """Yield sets of extents; if all of a set are at least 0, then so is d = p * function + q."""
    split = _split(d, function)
    if split is None:
        return
    p, q = split
    name, a, b = function
    if name in ("max", "min"):
        # p * max(a, b) is at least p * a and at least p * b where p is not negative.
        operands = _flat(function)
        chosen = [p * each + q for each in operands]
        yield from ((p if name == "max" else -p, each) for each in chosen)
        if name == "max" and Dim.of(0) in operands:
            yield from ((p - 1, each + q) for each in operands)
        yield tuple(chosen)
        return
    divisor = b.constant or 0
    if divisor <= 0:
        return
    if name == "mod":
        yield (p, q)
        yield (-p, p * (divisor - 1) + q)
        return
    # floordiv and ceildiv lie between these two, divided by the divisor.
    low = a if name == "ceildiv" else a - (divisor - 1)
    yield (p, p * low + q * divisor)
    yield (-p, p * (low + (divisor - 1)) + q * divisor)


def _flat(function: _Function) -> list[Dim]:
    """Return the operands of a max of max's, or of a min of min's."""
    name, *operands = function
    found: list[Dim] = []
    for each in operands:
        inner = _functions(each.terms)
        nested = len(inner) == 1 and inner[0][0] == name and str(each) == _named(inner[0])
        found += _flat(inner[0]) if nested else [each]
    return found


def _split(d: Dim, atom: Atom) -> tuple[Dim, Dim] | None:
    """Return p and q, free of `atom`, with d = p * atom + q; None if there is a higher power."""
    p, q = Dim.of(0), Dim.of(0)
    for c, atoms in d.terms:
        rest = [each for each in atoms if each != atom]
        term = Dim.of(c)
        for each in rest:
            term = term * _dim(each)
        if len(rest) == len(atoms):
            q = q + term
        elif len(rest) + 1 == len(atoms):
            p = p + term
        else:
            return None
    return p, q


def _dim(atom: Atom) -> Dim:
    return Dim.symbol(atom) if isinstance(atom, str) else parse_dim(_named(atom))
