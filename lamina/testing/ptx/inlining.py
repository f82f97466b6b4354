"""Put the bodies of functions in the place of calls, so that a kernel is one list."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from lamina.errors import UnsupportedError
from lamina.testing.ptx.substitution import substitute
from lamina.testing.ptx.syntax import (
    Function,
    Instruction,
    Module,
    Operand,
    Register,
    Symbol,
    Variable,
    Vector,
)

LARGEST = 200_000
"""The most instructions a kernel may have."""

_DEEPEST = 16


@dataclass
class Flat:
    """A kernel without calls."""

    body: list[Instruction] = field(default_factory=list[Instruction])
    labels: dict[str, int] = field(default_factory=dict[str, int])
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    registers: dict[str, str] = field(default_factory=dict[str, str])
    variables: list[Variable] = field(default_factory=list[Variable])


def flatten(module: Module, kernel: Function) -> Flat:
    """Return a kernel with all its calls inlined.

    Raises `UnsupportedError` for recursion, calls through registers, and functions that the
    module does not define.
    """
    flat = Flat()
    _Inliner(module, flat).place(kernel, "", {}, ())
    return flat


class _Inliner:
    def __init__(self, module: Module, flat: Flat) -> None:
        self._module = module
        self._flat = flat
        self._calls = 0

    def place(
        self, function: Function, prefix: str, given: dict[str, Operand], above: tuple[str, ...]
    ) -> None:
        flat = self._flat
        names: dict[str, Operand] = dict(given)
        for name, kind in function.registers.items():
            if name not in given:
                names[name] = Register(prefix + name)
                flat.registers[prefix + name] = kind
        for name, variable in function.variables.items():
            names[name] = Symbol(prefix + name)
            flat.variables.append(replace(variable, name=prefix + name))
        for name in function.labels:
            names[name] = Symbol(prefix + name)
        for name, targets in function.tables.items():
            flat.tables[prefix + name] = tuple(prefix + target for target in targets)
            names[name] = Symbol(prefix + name)
        at: dict[int, list[str]] = {}
        for name, index in function.labels.items():
            at.setdefault(index, []).append(prefix + name)
        for index, op in enumerate(function.body):
            for label in at.get(index, ()):
                flat.labels[label] = len(flat.body)
            self._add(substitute(op, names), prefix, above)
        for label in at.get(len(function.body), ()):
            flat.labels[label] = len(flat.body)
        flat.labels[f"{prefix}return"] = len(flat.body)

    def _add(self, op: Instruction, prefix: str, above: tuple[str, ...]) -> None:
        if len(self._flat.body) >= LARGEST:
            raise UnsupportedError(f"a kernel of more than {LARGEST} instructions")
        if op.name == "ret" and prefix:
            there = (Symbol(f"{prefix}return"),)
            self._flat.body.append(replace(op, name="bra", modifiers=(), operands=there))
        elif op.name == "call":
            self._call(op, above)
        else:
            self._flat.body.append(op)

    def _call(self, op: Instruction, above: tuple[str, ...]) -> None:
        operands = list(op.operands)
        results = operands.pop(0) if isinstance(operands[0], Vector) else Vector(())
        callee = operands.pop(0)
        arguments = operands[0] if operands and isinstance(operands[0], Vector) else Vector(())
        name = callee.name if isinstance(callee, Symbol) else ""
        function = self._module.functions.get(name)
        if function is None or not function.defined or op.guard is not None:
            raise UnsupportedError(
                f"PTX line {op.line}: the interpreter cannot call {name or 'through a register'}"
            )
        if name in above or len(above) >= _DEEPEST:
            raise UnsupportedError(f"PTX line {op.line}: {name} calls itself")
        assert isinstance(results, Vector)
        given: dict[str, Operand] = {}
        pairs = ((function.results, results.items), (function.params, arguments.items))
        for declared, passed in pairs:
            given |= {
                variable.name: operand for variable, operand in zip(declared, passed, strict=True)
            }
        self._calls += 1
        self.place(function, f"{name}#{self._calls}.", given, (*above, name))
