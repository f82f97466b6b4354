"""Conversions and comparisons of registers: what they have in common in every language."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from lamina.dialects import tile
from lamina.targets.shading.expressions import TESTS, Expression, elementwise, plain
from lamina.targets.shading.printer import Printer, Rule


class FromFloat(Protocol):
    """Spells a float `x` converted to `target`, an integer or a truth value."""

    def __call__(self, p: Any, target: Any, x: str, *, no_sign: bool) -> str:
        """Return the text."""
        ...


class FromInteger(Protocol):
    """Spells an integer or truth value `x` of `source` converted to `target`."""

    def __call__(self, p: Any, source: Any, target: Any, x: str, *, no_sign: bool) -> str:
        """Return the text."""
        ...


@dataclass(frozen=True)
class Conversions:
    """How a language converts a register, by what it is and what it becomes.

    `between_floats` rounds to what an element can hold.
    """

    between_floats: Callable[[Any, Any, str], str]
    from_float: FromFloat
    to_float: FromInteger
    between_integers: FromInteger

    def cast(self, p: Printer, op: tile.CastOp) -> None:
        """Print `tile.cast`."""
        source, target = (p.language.element(each.type) for each in (op.x, op.y))
        no_sign = op.unsigned is not None
        p.define(op.y, [self.text(p, source, target, x, no_sign) for x in p.registers(op.x)])

    def text(self, p: Printer, source: Any, target: Any, x: str, no_sign: bool) -> str:
        """Return a register of `source` converted to `target`, as `tile.cast` does."""
        if source.name == target.name:
            return x
        if source.floating and target.floating:
            return self.between_floats(p, target, x)
        if source.floating:
            return self.from_float(p, target, x, no_sign=no_sign)
        if target.floating:
            return self.to_float(p, source, target, x, no_sign=no_sign)
        return self.between_integers(p, source, target, x, no_sign=no_sign)


class CompareIntegers(Protocol):
    """Returns the comparison of integers or truth values by an operator of the language."""

    def __call__(self, test: str, *, no_sign: bool) -> Expression:
        """Return the expression."""
        ...


_NOT_EQUAL: Final = "!({0} == {1})"
"""What is said to differ need not be NaN, but nothing says that NaN is equal."""


def comparison(compare_integers: CompareIntegers) -> Rule:
    """Return the rule of `tile.compare`."""

    def rule(p: Printer, op: tile.CompareOp) -> None:
        test = TESTS[tile.COMPARISONS.index(op.kind.data)]
        kind: Any = p.language.element(op.a.type)
        if kind.floating:
            elementwise(plain(_NOT_EQUAL if test == "!=" else f"({{0}} {test} {{1}})"))(p, op)
            return
        elementwise(compare_integers(test, no_sign=op.unsigned is not None))(p, op)

    return rule
