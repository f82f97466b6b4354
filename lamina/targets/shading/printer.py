"""The state of one kernel's printing: what each value of the program is called in the language."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

from xdsl.ir import Attribute, Block, Operation, SSAValue

from lamina.dialects.tile import shape_of
from lamina.errors import LoweringError
from lamina.targets.plans.nodes import NodeTable

Rule = Callable[[Any, Any], None]
"""Prints one operation on a `Printer`: reads its operands' registers, sets its results'."""


class Element(Protocol):
    """An element type: the type of its registers in the language, and how zero is spelt there."""

    @property
    def register(self) -> str:
        """The type of a register."""
        ...

    @property
    def zero(self) -> str:
        """The spelling of zero."""
        ...


@dataclass(frozen=True)
class Language:
    """How a language spells what every kernel has.

    `constant` and `variable` are templates of a definition, of `name`, `type` and `text`; `choice`
    is one of what is there if `test` holds, `left` or else `right`. `counter` is the type of a
    loop's counter. `element` gives the element of a scalar, vector or memref type, and raises
    LoweringError if there is none.
    """

    target: str
    constant: str
    variable: str
    choice: str
    counter: str
    element: Callable[[Attribute], Element]


class _PlacedError(LoweringError):
    """An error that says which operation it is of."""


class Printer:
    """Lines so far, the registers of values, and the functions that are called.

    `memories` describes each memref as the language's rules want it, `programs` are a block's
    coordinates, `declarations` what stands before the lines.
    """

    def __init__(
        self, language: Language, rules: Mapping[type[Operation], Rule], nodes: NodeTable
    ) -> None:
        """Begin with nothing; `rules` prints each operation."""
        self.language = language
        self.lines: list[str] = []
        self.memories: dict[SSAValue, Any] = {}
        self.declarations: list[str] = []
        self.functions: set[str] = set()
        self.programs: tuple[str, ...] = ()
        self.nodes = nodes
        self._rules = rules
        self._registers: dict[SSAValue, list[str]] = {}
        self._numbers = count()
        self._depth = 1

    def block(self, block: Block) -> None:
        """Print a block's operations in order; LoweringError names one without a rule."""
        for op in block.ops:
            rule = self._rules.get(type(op))
            if rule is None:
                raise _PlacedError(f"{self.language.target} has no rule for {op.name}")
            try:
                rule(self, op)
            except _PlacedError:
                raise
            except LoweringError as error:
                raise _PlacedError(f"{error}, in {op.name}") from None

    def add(self, line: str) -> None:
        """Print a line."""
        self.lines.append(f"{'  ' * self._depth}{line}")

    def open(self, line: str) -> None:
        """Print a line that opens a block of the language."""
        self.add(f"{line} {{")
        self._depth += 1

    def close(self) -> None:
        """End what was opened last."""
        self._depth -= 1
        self.add("}")

    def fresh(self) -> str:
        """Return a name that nothing has."""
        return f"v{next(self._numbers)}"

    def call(self, function: str, *arguments: str) -> str:
        """Return a call of a function that the kernel's text will have."""
        self.functions.add(function)
        return f"{function}({', '.join(arguments)})"

    def registers(self, value: SSAValue) -> list[str]:
        """Return what the registers of a value are called; a scalar has one."""
        return self._registers[value]

    def scalar(self, value: SSAValue) -> str:
        """Return what a scalar is called."""
        return self._registers[value][0]

    def set(self, value: SSAValue, registers: Sequence[str]) -> None:
        """Say what the registers of a value are called."""
        self._registers[value] = list(registers)

    def constant(self, name: str, type: str, text: str) -> None:
        """Print the definition of a name."""
        self.add(self.language.constant.format(name=name, type=type, text=text))

    def define(self, value: SSAValue, expressions: Sequence[str]) -> None:
        """Print the definition of each register of a value; equal expressions share one."""
        kind = self.language.element(value.type)
        base, known, names = self.fresh(), dict[str, str](), list[str]()
        for number, text in enumerate(expressions):
            if text not in known:
                known[text] = f"{base}_{number}" if len(expressions) > 1 else base
                self.constant(known[text], kind.register, text)
            names.append(known[text])
        self.set(value, names)

    def variables(self, value: SSAValue, initial: Sequence[str] | None = None) -> list[str]:
        """Print a variable for each register of a value, and return their names."""
        kind, base = self.language.element(value.type), self.fresh()
        size = count_of(value)
        names = [f"{base}_{n}" if size > 1 else base for n in range(size)]
        for name, text in zip(names, initial or [kind.zero] * size, strict=True):
            self.add(self.language.variable.format(name=name, type=kind.register, text=text))
        self.set(value, names)
        return names

    def assign(self, names: Sequence[str], values: Sequence[SSAValue]) -> None:
        """Print assignments of the registers of values to variables, that all happen at once."""
        given = [(text, each) for each in values for text in self.registers(each)]
        pairs = [(n, t, v) for n, (t, v) in zip(names, given, strict=True) if n != t]
        held: dict[str, str] = {}
        for _, text, each in pairs:
            if text in names and text not in held:
                held[text] = self.fresh()
                self.constant(held[text], self.language.element(each.type).register, text)
        for name, text, _ in pairs:
            self.add(f"{name} = {held.get(text, text)};")


def count_of(value: SSAValue) -> int:
    """Return the number of registers of a value."""
    shape = shape_of(value.type)
    return shape[0] if shape else 1
