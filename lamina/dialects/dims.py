"""Extents: integer polynomials over symbols, in one canonical text form.

A `Dim` is a polynomial with integer coefficients whose atoms are symbols (`T`) or one of
`floordiv`, `ceildiv`, `mod`, `min`, `max` of two extents. Equal text is equal value, so extents
compare, hash and live in the IR as strings. No XDSL import: runtimes evaluate extents too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

Atom = str | tuple[str, "Dim", "Dim"]
Monomial = tuple[str, ...]


def _ceildiv(a: int, b: int) -> int:
    return -(-a // b)


FUNCTIONS: Final[dict[str, Callable[[int, int], int]]] = {
    "floordiv": lambda a, b: a // b,
    "ceildiv": _ceildiv,
    "mod": lambda a, b: a % b,
    "min": min,
    "max": max,
}
"""The two-argument atoms; division rounds towards minus infinity."""

DIVISIONS: Final = frozenset({"floordiv", "ceildiv", "mod"})
"""Those that are not defined where the second is 0."""

_TOKEN: Final = re.compile(r"\s*(?:(\d+)|([A-Za-z_][\w.]*)|([-+*(),]))")


class Dim:
    """An extent: an integer polynomial over symbols, immutable, equal when its text is equal."""

    __slots__ = ("_atoms", "_hash", "_ordered", "_symbols", "_terms", "_text")

    def __init__(self, terms: Mapping[Monomial, int], atoms: Mapping[str, Atom]) -> None:
        self._terms = {m: c for m, c in terms.items() if c}
        used = {name for m in self._terms for name in m}
        self._atoms = {name: atom for name, atom in atoms.items() if name in used}
        self._hash: int | None = None
        self._text: str | None = None
        self._ordered: tuple[tuple[int, tuple[Atom, ...]], ...] | None = None
        self._symbols: frozenset[str] | None = None

    @staticmethod
    def of(value: Dim | int | str) -> Dim:
        """Return `value` as an extent; text is parsed."""
        if isinstance(value, Dim):
            return value
        return _constant(value) if isinstance(value, int) else parse_dim(value)

    @staticmethod
    def symbol(name: str) -> Dim:
        """Return the extent that is just the symbol `name`."""
        return Dim({(name,): 1}, {name: name})

    @property
    def symbols(self) -> frozenset[str]:
        """Every symbol that the value depends on."""
        if self._symbols is None:
            found: set[str] = set()
            for atom in self._atoms.values():
                found |= {atom} if isinstance(atom, str) else atom[1].symbols | atom[2].symbols
            self._symbols = frozenset(found)
        return self._symbols

    @property
    def constant(self) -> int | None:
        """The value when no symbol is involved, else None."""
        return None if self._atoms else self._terms.get((), 0)

    @property
    def terms(self) -> tuple[tuple[int, tuple[Atom, ...]], ...]:
        """The polynomial as (coefficient, atoms) in canonical order."""
        if self._ordered is None:
            ordered = sorted(self._terms.items(), key=_order)
            self._ordered = tuple((c, tuple(self._atoms[name] for name in m)) for m, c in ordered)
        return self._ordered

    def monomials(self) -> Iterator[tuple[int, Dim]]:
        """Yield each coefficient and the product of atoms that it belongs to, as in `terms`."""
        for monomial, coefficient in sorted(self._terms.items(), key=_order):
            yield coefficient, Dim({monomial: 1}, self._atoms)

    def evaluate(self, values: Mapping[str, int]) -> int:
        """Return the integer under `values`; a missing symbol is a KeyError."""
        cache = {name: _atom_value(atom, values) for name, atom in self._atoms.items()}
        total = 0
        for monomial, coefficient in self._terms.items():
            product = coefficient
            for name in monomial:
                product *= cache[name]
            total += product
        return total

    def substitute(self, values: Mapping[str, Dim | int | str]) -> Dim:
        """Return the extent with symbols replaced."""
        total = _constant(0)
        for coefficient, atoms in self.terms:
            product = _constant(coefficient)
            for atom in atoms:
                product = product * _substitute_atom(atom, values)
            total = total + product
        return total

    def __add__(self, other: Dim | int) -> Dim:
        """Return the sum."""
        other = Dim.of(other)
        terms = dict(self._terms)
        for monomial, coefficient in other._terms.items():
            terms[monomial] = terms.get(monomial, 0) + coefficient
        return Dim(terms, self._atoms | other._atoms)

    def __mul__(self, other: Dim | int) -> Dim:
        """Return the product."""
        other = Dim.of(other)
        terms: dict[Monomial, int] = {}
        for m1, c1 in self._terms.items():
            for m2, c2 in other._terms.items():
                monomial = tuple(sorted(m1 + m2))
                terms[monomial] = terms.get(monomial, 0) + c1 * c2
        return Dim(terms, self._atoms | other._atoms)

    def __neg__(self) -> Dim:
        """Return the negation."""
        return self * -1

    def __sub__(self, other: Dim | int) -> Dim:
        """Return the difference."""
        return self + (-Dim.of(other))

    def __floordiv__(self, other: Dim | int) -> Dim:
        """Return the quotient rounded down."""
        return _function("floordiv", self, Dim.of(other))

    def __mod__(self, other: Dim | int) -> Dim:
        """Return the remainder of the division rounded down."""
        return _function("mod", self, Dim.of(other))

    def ceildiv(self, other: Dim | int) -> Dim:
        """Return the quotient rounded up."""
        return _function("ceildiv", self, Dim.of(other))

    def minimum(self, other: Dim | int) -> Dim:
        """Return the smaller one."""
        return _function("min", self, Dim.of(other))

    def maximum(self, other: Dim | int) -> Dim:
        """Return the larger one."""
        return _function("max", self, Dim.of(other))

    __radd__ = __add__
    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        """Compare by value."""
        if isinstance(other, int):
            return self.constant == other
        return isinstance(other, Dim) and self._terms == other._terms

    def __hash__(self) -> int:
        """Hash the terms."""
        if self._hash is None:
            self._hash = hash(frozenset(self._terms.items()))
        return self._hash

    def __str__(self) -> str:
        """Return the canonical text."""
        if self._text is None:
            self._text = _print(self._terms)
        return self._text

    def __repr__(self) -> str:
        """Return a constructor call."""
        return f"Dim({str(self)!r})"


@lru_cache(maxsize=4096)
def parse_dim(text: str) -> Dim:
    """Parse an extent; ValueError says where the text is wrong."""
    tokens: list[str] = []
    position = 0
    while position < len(text.rstrip()):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"extent {text!r}: unexpected character at {position}")
        tokens.append(match.group().strip())
        position = match.end()
    value, rest = _sum(tokens, text)
    if rest:
        raise ValueError(f"extent {text!r}: unexpected {rest[0]!r}")
    return value


def product(dims: Iterable[Dim]) -> Dim:
    """Return the product of extents; of none, 1."""
    total = _constant(1)
    for dim in dims:
        total = total * dim
    return total


@lru_cache(maxsize=4096)
def _constant(value: int) -> Dim:
    return Dim({(): value}, {})


def _order(item: tuple[Monomial, int]) -> tuple[int, Monomial]:
    return -len(item[0]), item[0]


def _print(terms: Mapping[Monomial, int]) -> str:
    parts: list[str] = []
    for monomial, coefficient in sorted(terms.items(), key=_order):
        factors = list(monomial) if coefficient in (1, -1) and monomial else []
        factors = factors or [str(abs(coefficient)), *monomial]
        sign = "-" if coefficient < 0 else ("+" if parts else "")
        parts.append(f"{sign} {'*'.join(factors)}" if parts else sign + "*".join(factors))
    return " ".join(parts) or "0"


def _atom_value(atom: Atom, values: Mapping[str, int]) -> int:
    if isinstance(atom, str):
        return values[atom]
    name, a, b = atom
    return FUNCTIONS[name](a.evaluate(values), b.evaluate(values))


def _substitute_atom(atom: Atom, values: Mapping[str, Dim | int | str]) -> Dim:
    if isinstance(atom, str):
        return Dim.of(values[atom]) if atom in values else Dim.symbol(atom)
    name, a, b = atom
    return _function(name, a.substitute(values), b.substitute(values))


def _function(name: str, a: Dim, b: Dim) -> Dim:
    if (simple := _simplify(name, a, b)) is not None:
        return simple
    text = f"{name}({a}, {b})"
    return Dim({(text,): 1}, {text: (name, a, b)})


def _simplify(name: str, a: Dim, b: Dim) -> Dim | None:
    x, y = a.constant, b.constant
    division = name in DIVISIONS
    if division and y == 0:
        raise ValueError(f"extent {name}({a}, {b}) divides by zero")
    if x is not None and y is not None:
        return _constant(FUNCTIONS[name](x, y))
    if division and y is not None:
        coefficients = [c for c, _ in a.terms]
        if all(c % y == 0 for c in coefficients):
            return _constant(0) if name == "mod" else _divide(a, y)
    if not division and a == b:
        return a
    return None


def _divide(a: Dim, divisor: int) -> Dim:
    total = _constant(0)
    for coefficient, atoms in a.terms:
        term = _constant(coefficient // divisor)
        for atom in atoms:
            term = term * _substitute_atom(atom, {})
        total = total + term
    return total


def _sum(tokens: list[str], text: str) -> tuple[Dim, list[str]]:
    total, sign = _constant(0), 1
    if tokens and tokens[0] == "-":
        sign, tokens = -1, tokens[1:]
    while True:
        term, tokens = _term(tokens, text)
        total = total + term * sign
        if not tokens or tokens[0] not in "+-":
            return total, tokens
        sign, tokens = (1 if tokens[0] == "+" else -1), tokens[1:]


def _term(tokens: list[str], text: str) -> tuple[Dim, list[str]]:
    value, tokens = _factor(tokens, text)
    while tokens and tokens[0] == "*":
        factor, tokens = _factor(tokens[1:], text)
        value = value * factor
    return value, tokens


def _factor(tokens: list[str], text: str) -> tuple[Dim, list[str]]:
    if not tokens:
        raise ValueError(f"extent {text!r} ends too early")
    head, rest = tokens[0], tokens[1:]
    if head.isdigit():
        return _constant(int(head)), rest
    if head == "(":
        value, rest = _sum(rest, text)
        return value, _expect(rest, ")", text)
    if head in FUNCTIONS and rest and rest[0] == "(":
        a, rest = _sum(rest[1:], text)
        b, rest = _sum(_expect(rest, ",", text), text)
        return _function(head, a, b), _expect(rest, ")", text)
    if head in "+-*,)":
        raise ValueError(f"extent {text!r}: unexpected {head!r}")
    return Dim.symbol(head), rest


def _expect(tokens: list[str], token: str, text: str) -> list[str]:
    if not tokens or tokens[0] != token:
        raise ValueError(f"extent {text!r}: expected {token!r}")
    return tokens[1:]
