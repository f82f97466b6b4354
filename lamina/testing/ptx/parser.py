"""Read a module of PTX text."""

from __future__ import annotations

import re

from lamina.errors import FormatError, UnsupportedError
from lamina.testing.ptx.body import BodyParser
from lamina.testing.ptx.declarations import parse_variable, skip_information
from lamina.testing.ptx.reader import Reader
from lamina.testing.ptx.syntax import Function, Module, Variable

_LINKAGE = (".visible", ".extern", ".weak", ".common")
_SPACES = (".global", ".const", ".shared")
_NUMBERS = re.compile(r"(reqntid|maxntid|minnctapersm|maxnreg|maxnctapersm|reqnctapercluster)")


def parse(text: str) -> Module:
    """Return what `text` says; see the PTX ISA, chapters 4, 5 and 11.

    Raises `FormatError` where it breaks the grammar, with the line, and `UnsupportedError` for
    declarations that are not known here.
    """
    return _ModuleParser(Reader(text)).module()


class _ModuleParser:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._module = Module()

    def module(self) -> Module:
        reader = self._reader
        while reader.peek().kind != "end":
            if reader.accept(".version"):
                self._module.version = reader.next().text
            elif reader.accept(".target"):
                self._module.target = reader.next().text
                while reader.accept(","):
                    reader.next()
            elif reader.accept(".address_size"):
                if reader.integer() != 64:
                    raise UnsupportedError("PTX with .address_size 32 cannot be run: expected 64")
            else:
                self._declaration()
        if not self._module.version or not self._module.target:
            raise FormatError("PTX has to begin with .version and .target")
        return self._module

    def _declaration(self) -> None:
        reader = self._reader
        if skip_information(reader):
            return
        extern = False
        while (linkage := reader.peek().text) in _LINKAGE:
            extern |= linkage == ".extern"
            reader.next()
        if reader.peek().text in (".entry", ".func"):
            self._function()
        elif reader.peek().text in _SPACES:
            space = reader.next().text[1:]
            variable = parse_variable(reader, space, dynamic=extern)
            reader.expect(";")
            self._module.variables[variable.name] = variable
        else:
            token = reader.peek()
            raise UnsupportedError(f"PTX line {token.line}: {token.text} is not known here")

    def _function(self) -> None:
        reader = self._reader
        start = reader.next()
        entry = start.text == ".entry"
        results = [] if entry else self._params(optional=True)
        function = Function(reader.name(), start.line, entry, results=results)
        function.params = self._params(optional=True)
        while reader.peek().kind == "directive":
            name = reader.next().text[1:]
            numbers: list[int] = []
            while reader.peek().kind == "number":
                numbers.append(reader.integer())
                if not reader.accept(","):
                    break
            function.directives[name] = tuple(numbers)
            if numbers and not _NUMBERS.fullmatch(name):
                raise UnsupportedError(f"PTX line {start.line}: .{name} is not known here")
        if not reader.accept(";"):
            BodyParser(reader, self._module, function).parse()
            function.defined = True
        known = self._module.functions.get(function.name)
        if known is None or not known.defined:
            self._module.functions[function.name] = function

    def _params(self, *, optional: bool) -> list[Variable]:
        reader = self._reader
        if optional and reader.peek().text != "(":
            return []
        reader.expect("(")
        found: list[Variable] = []
        while not reader.accept(")"):
            if reader.accept(".reg"):
                kind = reader.next().text[1:]
                name = reader.name()
                found.append(Variable(name, kind, 0, 0, register=True))
            else:
                reader.expect(".param")
                found.append(parse_variable(reader, "param", dynamic=False))
            reader.accept(",")
        return found
