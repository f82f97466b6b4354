"""Read the body of a function: declarations, labels and instructions, with nested scopes."""

from __future__ import annotations

import re
from collections.abc import Callable

from lamina.errors import FormatError, UnsupportedError
from lamina.testing.ptx.declarations import parse_variable, skip_information
from lamina.testing.ptx.reader import Reader
from lamina.testing.ptx.scalars import SCALARS
from lamina.testing.ptx.substitution import substitute
from lamina.testing.ptx.syntax import (
    Address,
    Both,
    Box,
    Function,
    Instruction,
    Integer,
    Module,
    Not,
    Operand,
    Register,
    Sink,
    Special,
    Symbol,
    Variable,
    Vector,
)

_FAMILY = re.compile(r"(.*?)(\d+)$")


class _Scope:
    """The names that one pair of braces declares."""

    def __init__(self, suffix: str, start: int) -> None:
        self.suffix = suffix
        self.start = start
        self.labels: set[str] = set()
        self.registers: dict[str, str] = {}
        self.families: dict[str, tuple[str, int]] = {}
        self.names: set[str] = set()


class BodyParser:
    """Reads one body, braces included, into its function; names become unique in it."""

    def __init__(self, reader: Reader, module: Module, function: Function) -> None:
        self._reader = reader
        self._module = module
        self._function = function
        self._scopes: list[_Scope] = []
        self._opened = 0
        self._declarations: dict[str, Callable[[], None]] = {
            ".reg": self._registers,
            **{f".{space}": self._variable for space in ("shared", "local", "param", "global")},
        }
        self._opened_by: dict[str, Callable[[], Operand]] = {
            "!": lambda: Not(self._operand()),
            "{": lambda: self._list("}"),
            "(": lambda: self._list(")"),
            "[": self._address,
        }
        for param in (*function.params, *function.results):
            if param.register:
                function.registers[param.name] = param.space

    def parse(self) -> None:
        """Read the body."""
        self._reader.expect("{")
        self._open()
        while self._scopes:
            self._statement()

    def _open(self) -> None:
        suffix = f"@{self._opened}" if self._opened else ""
        self._scopes.append(_Scope(suffix, len(self._function.body)))
        self._opened += 1

    def _close(self) -> None:
        scope = self._scopes.pop()
        if not scope.suffix or not scope.labels:
            return
        renamed = {name: Symbol(name + scope.suffix) for name in scope.labels}
        body = self._function.body
        body[scope.start :] = [substitute(op, renamed) for op in body[scope.start :]]

    def _statement(self) -> None:
        reader = self._reader
        token = reader.peek()
        if reader.accept("{"):
            self._open()
        elif reader.accept("}"):
            self._close()
        elif reader.accept(";") or skip_information(reader):
            pass
        elif declare := self._declarations.get(token.text):
            declare()
        elif token.kind == "name" and reader.peek(1).text == ":":
            self._label()
        elif token.kind == "directive":
            raise UnsupportedError(f"PTX line {token.line}: {token.text} is not known here")
        else:
            self._instruction()

    def _registers(self) -> None:
        reader = self._reader
        reader.next()
        kind = reader.next().text[1:]
        if kind not in SCALARS:
            raise UnsupportedError(f"PTX line {reader.peek().line}: .reg .{kind} is not known")
        scope = self._scopes[-1]
        while True:
            name = reader.name()
            if reader.accept("<"):
                scope.families[name] = (kind, reader.integer())
                reader.expect(">")
            else:
                scope.registers[name] = kind
            if reader.accept(";"):
                return
            reader.expect(",")

    def _variable(self) -> None:
        space = self._reader.next().text[1:]
        found = parse_variable(self._reader, space, dynamic=False)
        self._reader.expect(";")
        scope = self._scopes[-1]
        scope.names.add(found.name)
        name = found.name + scope.suffix
        self._function.variables[name] = Variable(
            name, space, found.align, found.size, found.initial
        )

    def _label(self) -> None:
        reader = self._reader
        name = reader.name()
        reader.expect(":")
        if reader.accept(".branchtargets"):
            targets = [reader.name()]
            while reader.accept(","):
                targets.append(reader.name())
            reader.expect(";")
            self._function.tables[name] = tuple(targets)
            return
        if reader.accept(".callprototype"):
            reader.through(";")
            return
        scope = self._scopes[-1]
        scope.labels.add(name)
        self._function.labels[name + scope.suffix] = len(self._function.body)

    def _instruction(self) -> None:
        reader = self._reader
        line = reader.peek().line
        guard: Operand | None = None
        if reader.accept("@"):
            guard = self._operand()
        name, *modifiers = reader.name().split(".")
        operands: list[Operand] = []
        while not reader.accept(";"):
            operands.append(self._operand())
            if reader.peek().text != ";":
                reader.expect(",")
        self._function.body.append(
            Instruction(line, guard, name, tuple(modifiers), tuple(operands))
        )

    def _operand(self) -> Operand:
        reader = self._reader
        if opened := self._opened_by.get(reader.peek().text):
            reader.next()
            return opened()
        return self._word() if reader.peek().kind == "name" else reader.literal()

    def _word(self) -> Operand:
        reader = self._reader
        first = self._named(reader.name())
        if reader.accept("|"):
            return Both(first, self._named(reader.name()))
        if isinstance(first, Symbol) and reader.peek().text in ("+", "-"):
            return Symbol(first.name, self._displacement())
        return first

    def _list(self, end: str) -> Vector:
        items: list[Operand] = []
        while not self._reader.accept(end):
            items.append(self._operand())
            self._reader.accept(",")
        return Vector(tuple(items))

    def _address(self) -> Address | Box:
        reader = self._reader
        base: Operand | None = None
        if reader.peek().kind == "name":
            base = self._named(reader.name())
        offset = reader.integer() if base is None else self._displacement()
        start: Operand | None = None
        if reader.accept(","):
            reader.expect("{")
            start = self._list("}")
        token = reader.peek()
        if not reader.accept("]") or isinstance(base, (Special, Sink, Integer)):
            raise FormatError(f"PTX line {token.line}: this is no address, at {token.text!r}")
        place = Address(base, offset)
        return Box(place, start.items) if isinstance(start, Vector) else place

    def _displacement(self) -> int:
        total = 0
        while (sign := self._reader.peek().text) in ("+", "-"):
            if sign == "+":
                self._reader.next()
            total += self._reader.integer()
        return total

    def _named(self, name: str) -> Register | Special | Symbol | Sink | Integer:
        if name in ("_", "WARP_SZ"):
            return Sink() if name == "_" else Integer(32)
        declared = self._declared(name)
        if declared is not None:
            return declared
        if name in self._function.registers:
            return Register(name)
        return Special(name) if name.startswith("%") else Symbol(name)

    def _declared(self, name: str) -> Register | Symbol | None:
        family = _FAMILY.match(name)
        for scope in reversed(self._scopes):
            kind = scope.registers.get(name)
            if kind is None and family and family[1] in scope.families:
                kind, count = scope.families[family[1]]
                if int(family[2]) >= count:
                    line = self._reader.peek().line
                    raise FormatError(f"PTX line {line}: {name} is not one of {count} registers")
            if kind is not None:
                self._function.registers[name + scope.suffix] = kind
                return Register(name + scope.suffix)
            if name in scope.names:
                return Symbol(name + scope.suffix)
        return None
