"""The state of one kernel's printing: what each value is in LLVM, and the block that is open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from xdsl.ir import Block, Operation, SSAValue

from lamina.errors import LoweringError
from lamina.targets.cuda.elements import Element, count_of, element, llvm_type
from lamina.targets.cuda.shared_layout import SharedLayout
from lamina.targets.cuda.tensor_maps import TensorMap
from lamina.targets.plans.nodes import NodeTable

Rule = Callable[["Printer", Any], None]
"""Prints one operation: reads its operands' names, sets its results'."""


@dataclass(frozen=True)
class Memory:
    """A memory in LLVM: its pointer with address space, and its extents and strides as texts."""

    pointer: str
    space: int
    element: Element
    extents: tuple[str, ...] = ()
    strides: tuple[str, ...] = ()


class Printer:
    """Lines so far, the names of values, the memories, and the functions that are called."""

    def __init__(
        self,
        kernel: str,
        rules: Mapping[type[Operation], Rule],
        nodes: NodeTable,
        shared: SharedLayout,
    ) -> None:
        self.kernel = kernel
        self.lines: list[str] = ["entry:"]
        self.globals: list[str] = []
        self.declarations: dict[str, str] = {}
        self.memories: dict[SSAValue, Memory] = {}
        self.shared = shared
        self.maps: list[TensorMap] = []
        self.nodes = nodes
        self.label = "entry"
        self._rules = rules
        self._names: dict[SSAValue, str] = {}
        self._numbers = count()

    def block(self, block: Block) -> None:
        """Print a block's operations in order; LoweringError names one without a rule."""
        for op in block.ops:
            rule = self._rules.get(type(op))
            if rule is None:
                raise LoweringError(f"cuda has no rule for {op.name}")
            rule(self, op)

    def add(self, line: str) -> None:
        """Print an instruction without result."""
        self.lines.append(f"  {line}")

    def emit(self, text: str) -> str:
        """Print an instruction and return the name of its result."""
        name = f"%v{next(self._numbers)}"
        self.add(f"{name} = {text}")
        return name

    def labels(self, *words: str) -> list[str]:
        """Return labels that nothing has."""
        number = next(self._numbers)
        return [f"{word}{number}" for word in words]

    def open(self, label: str) -> None:
        """Begin a basic block."""
        self.lines.append(f"{label}:")
        self.label = label

    def name(self, value: SSAValue) -> str:
        """Return what a value is called."""
        return self._names[value]

    def set(self, value: SSAValue, name: str) -> None:
        """Say what a value is called."""
        self._names[value] = name

    def define(self, value: SSAValue, text: str) -> None:
        """Print an instruction whose result is `value`."""
        self.set(value, self.emit(text))

    def typed(self, value: SSAValue) -> str:
        """Return a value with its type."""
        return f"{llvm_type(value.type)} {self.name(value)}"

    def call(self, function: str, result: str, *arguments: tuple[str, str]) -> str:
        """Print a call of an intrinsic, whose arguments are (type, value); return its result."""
        types = ", ".join(type for type, _ in arguments)
        self.declarations[function] = f"declare {result} @{function}({types})"
        given = ", ".join(f"{type} {value}" for type, value in arguments)
        text = f"call {result} @{function}({given})"
        if result != "void":
            return self.emit(text)
        self.add(text)
        return ""

    def elements(self, value: SSAValue) -> list[str]:
        """Return the registers of a value one by one."""
        return self.parts(self.name(value), element(value.type), count_of(value.type))

    def parts(self, name: str, kind: Element, registers: int) -> list[str]:
        """Return registers one by one; of a scalar, itself."""
        if not registers:
            return [name]
        type = kind.of(registers)
        return [self.emit(f"extractelement {type} {name}, i32 {r}") for r in range(registers)]

    def joined(self, parts: Sequence[str], kind: Element, registers: int) -> str:
        """Return registers in a vector; for 0 registers the one scalar."""
        if not registers:
            return parts[0]
        type, held = kind.of(registers), "poison"
        for r, part in enumerate(parts):
            held = self.emit(f"insertelement {type} {held}, {kind.llvm} {part}, i32 {r}")
        return held

    def full(self, text: str, kind: Element, registers: int) -> str:
        """Return a constant for each register."""
        if not registers:
            return text
        return f"<{', '.join([f'{kind.llvm} {text}'] * registers)}>"
