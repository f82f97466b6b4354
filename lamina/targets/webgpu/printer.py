"""The state of one kernel's printing: what each value of the program is called in WGSL."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from xdsl.ir import Block, Operation, SSAValue

from lamina.dialects.tile import shape_of
from lamina.errors import LoweringError
from lamina.targets.webgpu.elements import Element, element

Rule = Callable[["Printer", Any], None]
"""Prints one operation: reads its operands' registers, sets its results'."""

TOO_WIDE = "a 64-bit integer, which webgpu holds in 32 bits"
"""What a value fails as that does not fit."""


class NodeTable:
    """The nodes that checks name, numbered from 1 in the order of their first use."""

    def __init__(self) -> None:
        """Begin with none."""
        self.names: list[str] = []

    def number(self, name: str) -> int:
        """Return the number of a node."""
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name) + 1


@dataclass(frozen=True)
class Memory:
    """A memory in WGSL: the variable, its element, and how an element's number is spelt.

    `offset` is added to every number, `atomic` says that words are, `shared` that it is a block's
    own and holds elements as registers do. `strides` and `extents` are texts.
    """

    name: str
    element: Element
    offset: str = ""
    extents: tuple[str, ...] = ()
    strides: tuple[str, ...] = ()
    atomic: bool = False
    shared: bool = False


class Printer:
    """Lines so far, the registers of values, the memories, and the functions that are called."""

    def __init__(self, rules: Mapping[type[Operation], Rule], nodes: NodeTable) -> None:
        """Begin with nothing; `rules` prints each operation."""
        self.lines: list[str] = []
        self.memories: dict[SSAValue, Memory] = {}
        self.declarations: list[str] = []
        self.functions: set[str] = set()
        self.varied: set[str] = set()
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
                raise LoweringError(f"webgpu has no rule for {op.name}")
            try:
                rule(self, op)
            except LoweringError as error:
                if " in " in str(error):
                    raise
                raise LoweringError(f"{error}, in {op.name}") from None

    def add(self, line: str) -> None:
        """Print a line."""
        self.lines.append(f"{'  ' * self._depth}{line}")

    def open(self, line: str) -> None:
        """Print a line that opens a block of WGSL."""
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
        """Return a call of a function of `functions`, which will be there."""
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

    def define(self, value: SSAValue, expressions: Sequence[str]) -> None:
        """Print the definition of each register of a value; equal expressions share one."""
        element(value.type)
        base, known, names = self.fresh(), dict[str, str](), list[str]()
        for number, text in enumerate(expressions):
            if text not in known:
                known[text] = f"{base}_{number}" if len(expressions) > 1 else base
                self.add(f"let {known[text]} = {text};")
            names.append(known[text])
        self.set(value, names)

    def variables(self, value: SSAValue, initial: Sequence[str] | None = None) -> list[str]:
        """Print a variable for each register of a value, and return their names."""
        kind, base = element(value.type), self.fresh()
        size = count_of(value)
        names = [f"{base}_{n}" if size > 1 else base for n in range(size)]
        for name, start in zip(names, initial or [kind.zero] * size, strict=True):
            self.add(f"var {name}: {kind.wgsl} = {start};")
        self.set(value, names)
        return names

    def assign(self, names: Sequence[str], texts: Sequence[str]) -> None:
        """Print assignments of variables that all happen at once."""
        held = {name: self.fresh() for name in names if name in texts}
        pairs = [(n, t) for n, t in zip(names, texts, strict=True) if n != t]
        for name, kept in held.items():
            if any(text == name for _, text in pairs):
                self.add(f"let {kept} = {name};")
        for name, text in pairs:
            self.add(f"{name} = {held.get(text, text)};")


def count_of(value: SSAValue) -> int:
    """Return the number of registers of a value."""
    shape = shape_of(value.type)
    return shape[0] if shape else 1
