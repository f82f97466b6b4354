"""Read what stands outside of instructions: variables, and information for other tools."""

from __future__ import annotations

from lamina.errors import FormatError, UnsupportedError
from lamina.testing.ptx.reader import Reader
from lamina.testing.ptx.scalars import SCALARS, Scalar
from lamina.testing.ptx.syntax import Integer, Symbol, Variable

LARGEST = 1 << 32
"""The most bytes a variable may have."""


def skip_information(reader: Reader) -> bool:
    """Skip a statement that says nothing about what is computed; tell whether there was one."""
    if reader.peek().text in (".file", ".loc"):
        line = reader.peek().line
        while reader.peek().line == line and reader.peek().kind != "end":
            reader.next()
        return True
    if reader.accept(".pragma"):
        reader.through(";")
        return True
    if reader.accept(".section"):
        reader.next()
        reader.expect("{")
        reader.through("}")
        return True
    return False


def parse_variable(reader: Reader, space: str, *, dynamic: bool) -> Variable:
    """Read `.align 16 .b8 name[4] = {…}` after the name of its space."""
    align, scalar, count = _type(reader)
    line = reader.peek().line
    name = reader.name()
    size: int | None = count * scalar.bits // 8
    unknown = False
    while reader.accept("["):
        if reader.accept("]"):
            unknown = True
            continue
        size = (size or 0) * reader.integer()
        reader.expect("]")
    width = scalar.bits // 8
    initial = tuple((width, value) for value in _initial(reader)) if reader.accept("=") else ()
    if unknown:
        size = None if dynamic else width * len(initial)
    if size is not None and not 0 <= size <= LARGEST:
        raise FormatError(f"PTX line {line}: {name} has {size} bytes, more than {LARGEST}")
    return Variable(name, space, align or count * width, size, initial)


def _type(reader: Reader) -> tuple[int, Scalar, int]:
    """Read the alignment, the type and how many there are of it in a vector.

    After `.ptr` comes the alignment of what a pointer points to.
    """
    align, scalar, count = 0, None, 1
    pointer = False
    while reader.peek().kind == "directive":
        token = reader.next()
        word = token.text[1:]
        if word == "align":
            wanted = reader.integer()
            align = align if pointer else wanted
        elif word == "ptr":
            pointer = True
        elif word in SCALARS:
            scalar = SCALARS[word]
        elif word in ("v2", "v4"):
            count *= int(word[1])
        elif word not in ("global", "shared", "local", "const", "attribute"):
            raise UnsupportedError(f"PTX line {token.line}: .{word} of a variable is not known")
    if scalar is None:
        raise FormatError(f"PTX line {reader.peek().line}: a variable needs a type")
    return align, scalar, count


def _initial(reader: Reader) -> list[int | Symbol]:
    if reader.accept("{"):
        found: list[int | Symbol] = []
        while not reader.accept("}"):
            found += _initial(reader)
            reader.accept(",")
        return found
    if reader.peek().text == "generic":
        reader.next()
        reader.expect("(")
        found = _initial(reader)
        reader.expect(")")
        return found
    if reader.peek().kind == "name":
        name = reader.name()
        return [Symbol(name, reader.integer() if reader.accept("+") else 0)]
    literal = reader.literal()
    return [literal.value if isinstance(literal, Integer) else literal.bits]
