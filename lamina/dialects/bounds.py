"""Prove facts about extents for all values of their symbols, every symbol being at least 0.

The proofs are sound and incomplete: True means that the fact holds, False that none was found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from lamina.dialects.dims import Atom, Dim, parse_dim

_ZERO: Final = Dim.of(0)
_DEEPEST: Final = 12


def proves_at_most(a: Dim, b: Dim) -> bool:
    """Return whether a <= b is proved."""
    return _proves_positive(b - a, _DEEPEST)


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
def _proves_positive(d: Dim, depth: int) -> bool:
    """Return whether d >= 0 is proved, with at most `depth` functions opened."""
    terms = d.terms
    if all(c >= 0 and _product_positive(atoms, depth) for c, atoms in terms):
        return True
    if depth == 0:
        return False
    return any(
        any(all(_proves_positive(each, depth - 1) for each in way) for way in _ways(d, atom))
        for atom in _functions(terms)
    )


def _product_positive(atoms: Iterable[Atom], depth: int) -> bool:
    return all(isinstance(a, str) or _atom_positive(a, depth) for a in atoms)


def _atom_positive(atom: tuple[str, Dim, Dim], depth: int) -> bool:
    if depth == 0:
        return False
    name, a, b = atom
    positive = [_proves_positive(each, depth - 1) for each in (a, b)]
    if name == "max":
        return any(positive)
    if name == "min":
        return all(positive)
    return (b.constant or 0) > 0 and (name == "mod" or positive[0])


def _functions(terms: Iterable[tuple[int, tuple[Atom, ...]]]) -> list[tuple[str, Dim, Dim]]:
    found = {
        _named(atom): atom for _, atoms in terms for atom in atoms if not isinstance(atom, str)
    }
    return list(found.values())


def _named(atom: Atom) -> str:
    return atom if isinstance(atom, str) else f"{atom[0]}({atom[1]}, {atom[2]})"


def _ways(d: Dim, atom: tuple[str, Dim, Dim]) -> Iterator[tuple[Dim, ...]]:
    """Yield sets of extents; if all of a set are at least 0, then so is d = p * atom + q."""
    split = _split(d, atom)
    if split is None:
        return
    p, q = split
    name, a, b = atom
    if name in ("max", "min"):
        # p * max(a, b) is at least p * a and at least p * b where p is not negative.
        lower = p if name == "max" else -p
        yield (lower, p * a + q)
        yield (lower, p * b + q)
        yield (p * a + q, p * b + q)
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


def _split(d: Dim, atom: Atom) -> tuple[Dim, Dim] | None:
    """Return p and q, free of `atom`, with d = p * atom + q; None if there is a higher power."""
    p, q = _ZERO, _ZERO
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
