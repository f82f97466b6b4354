"""Put other operands in the place of names, in an instruction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lamina.testing.ptx.syntax import (
    Address,
    Both,
    Box,
    Instruction,
    Not,
    Operand,
    Register,
    Symbol,
    Vector,
)


def substitute(op: Instruction, names: Mapping[str, Operand]) -> Instruction:
    """Return `op` with every register or symbol of `names` replaced by what it maps to."""
    guard = None if op.guard is None else _in(op.guard, names)
    return replace(op, guard=guard, operands=tuple(_in(item, names) for item in op.operands))


def _in(operand: Operand, names: Mapping[str, Operand]) -> Operand:
    match operand:
        case Register(name):
            return names.get(name, operand)
        case Symbol(name, offset):
            new = names.get(name, operand)
            return Symbol(new.name, new.offset + offset) if isinstance(new, Symbol) else new
        case Address(base, offset):
            return _address(base, offset, names)
        case _:
            return _around(operand, names)


def _around(operand: Operand, names: Mapping[str, Operand]) -> Operand:
    match operand:
        case Vector(items):
            return Vector(tuple(_in(item, names) for item in items))
        case Box(address, start):
            return Box(
                _address(address.base, address.offset, names),
                tuple(_in(item, names) for item in start),
            )
        case Both(first, second):
            return Both(_in(first, names), _in(second, names))
        case Not(inner):
            return Not(_in(inner, names))
        case _:
            return operand


def _address(base: Register | Symbol | None, offset: int, names: Mapping[str, Operand]) -> Address:
    new = None if base is None else _in(base, names)
    assert new is None or isinstance(new, (Register, Symbol))
    return Address(new, offset)
