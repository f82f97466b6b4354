"""Extents as values: each distinct sub-expression is computed once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import add, mul
from typing import Final

from lamina.dialects.dims import FUNCTIONS, Atom, Dim
from lamina.errors import LoweringError
from lamina.targets.plans.plan_tables import OPERATIONS, Plan

_BEYOND: Final = 2**63
_MEANINGS: Final[Mapping[str, Callable[[int, int], int]]] = {"add": add, "mul": mul, **FUNCTIONS}


class Expressions:
    """The values of a plan so far: symbols and constants, and what is computed from them."""

    def __init__(self) -> None:
        """Begin with no value."""
        self.count = 0
        self.symbols: dict[str, int] = {}
        self.constants: dict[int, int] = {}
        self.rows: list[tuple[int, int, int, int]] = []
        self._computed: dict[tuple[str, int, int], int] = {}
        self._dims: dict[Dim, int] = {}

    def value(self, dim: Dim | int) -> int:
        """Return the value that holds `dim`."""
        dim = Dim.of(dim)
        if dim not in self._dims:
            self._dims[dim] = self._polynomial(dim)
        return self._dims[dim]

    def _polynomial(self, dim: Dim) -> int:
        total: int | None = None
        for coefficient, atoms in dim.terms:
            term = self._term(coefficient, atoms)
            total = term if total is None else self._compute("add", total, term)
        return self._constant(0) if total is None else total

    def _term(self, coefficient: int, atoms: tuple[Atom, ...]) -> int:
        if not atoms:
            return self._constant(coefficient)
        product: int | None = None if coefficient == 1 else self._constant(coefficient)
        for atom in atoms:
            factor = self._atom(atom)
            product = factor if product is None else self._compute("mul", product, factor)
        assert product is not None
        return product

    def _atom(self, atom: Atom) -> int:
        if isinstance(atom, str):
            if atom not in self.symbols:
                self.symbols[atom] = self._next()
            return self.symbols[atom]
        name, a, b = atom
        return self._compute(name, self.value(a), self.value(b))

    def _constant(self, number: int) -> int:
        if not -_BEYOND <= number < _BEYOND:
            raise LoweringError(f"the plan has the number {number}, which is beyond 64 bits")
        if number not in self.constants:
            self.constants[number] = self._next()
        return self.constants[number]

    def _compute(self, name: str, a: int, b: int) -> int:
        key = (name, a, b)
        if key not in self._computed:
            self._computed[key] = self._next()
            self.rows.append((OPERATIONS.index(name), a, b, self._computed[key]))
        return self._computed[key]

    def _next(self) -> int:
        self.count += 1
        return self.count - 1


def evaluate(plan: Plan, symbols: Mapping[int, int]) -> list[int]:
    """Return every value of `plan`, given those of its symbols; a division by zero gives 0.

    A symbol that is not given, as no array binds it, counts as 1.
    """
    values = [1] * plan.values
    for value, number in (*symbols.items(), *((v, number) for number, v in plan.constants)):
        values[value] = number
    for operation, a, b, value in plan.expressions:
        name = OPERATIONS[operation]
        by_zero = values[b] == 0 and name in ("floordiv", "ceildiv", "mod")
        values[value] = 0 if by_zero else _MEANINGS[name](values[a], values[b])
    return values


def fits_64_bits(plan: Plan, symbols: Iterable[tuple[int, int]]) -> bool:
    """Tell whether native code can count every value of `plan`, with (value, number) `symbols`."""
    return all(-_BEYOND <= number < _BEYOND for number in evaluate(plan, dict(symbols)))
