"""Turn operands into functions that read and write registers; rules of instructions use it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from lamina.errors import FormatError, UnsupportedError
from lamina.testing.ptx.lanes import Lanes
from lamina.testing.ptx.scalars import RAW, SCALARS, Scalar
from lamina.testing.ptx.syntax import (
    Address,
    Instruction,
    Integer,
    Not,
    Operand,
    Real,
    Register,
    Sink,
    Special,
    Symbol,
)

if TYPE_CHECKING:
    from lamina.testing.ptx.layout import Layout
    from lamina.testing.ptx.threads import Threads

Read = Callable[["Threads"], Any]
"""Return an operand: an array over all threads, or a scalar."""

Write = Callable[["Threads", Lanes, Any], None]
"""Put a value, an array over all threads or a scalar, into a register of some."""

Step = Callable[["Threads", Lanes], Any]
"""Execute an instruction; a true result means that the threads do not just go on."""


class Decoder:
    """What the rules of instructions ask while a kernel is decoded.

    Registers get rows as they are met: `registers` counts them by bits, `views` are the NumPy
    types in which they are seen.
    """

    def __init__(self, types: dict[str, str], layout: Layout, labels: dict[str, int]) -> None:
        self.layout = layout
        self.labels = labels
        self.tables: dict[str, tuple[str, ...]] = {}
        self.registers: dict[int, int] = {}
        self.views: dict[int, set[np.dtype[Any]]] = {}
        self._types = types
        self._rows: dict[str, tuple[int, int]] = {}

    def scalar(self, op: Instruction, at: int = -1) -> Scalar:
        """Return the type that a modifier names. Raises `UnsupportedError` if it names none."""
        try:
            return SCALARS[op.modifiers[at]]
        except (IndexError, KeyError):
            raise self.unknown(op) from None

    def unknown(self, op: Instruction) -> UnsupportedError:
        """Return the error for an instruction, or a form of one, that there is no rule for."""
        return UnsupportedError(
            f"PTX line {op.line}: the interpreter has no rule for {op.spelling}"
        )

    def label(self, op: Instruction, operand: Operand) -> int:
        """Return the instruction that a label stands before."""
        if isinstance(operand, Symbol) and operand.name in self.labels:
            return self.labels[operand.name]
        name = operand.name if isinstance(operand, Symbol) else "this"
        raise FormatError(f"PTX line {op.line}: {name} is not a label of this function")

    def row(self, register: Register) -> tuple[int, int]:
        """Return the bits and the row of a register."""
        return self._row(register.name)

    def _row(self, name: str) -> tuple[int, int]:
        if name not in self._rows:
            bits = SCALARS[self._types[name]].bits
            bits = 16 if bits == 8 else bits
            self._rows[name] = (bits, self.registers.get(bits, 0))
            self.registers[bits] = self._rows[name][1] + 1
        return self._rows[name]

    def _seen(self, bits: int, dtype: np.dtype[Any]) -> tuple[int, np.dtype[Any]]:
        self.views.setdefault(bits, set()).add(dtype)
        return bits, dtype

    def read(self, op: Instruction, operand: Operand, scalar: Scalar) -> Read:
        """Return a function that gives an operand in the NumPy type of `scalar`."""
        match operand:
            case Register(name):
                return self._read_register(op, name, scalar)
            case Integer(value):
                return _constant(_of_integer(value, scalar))
            case Real(bits, width):
                return _constant(_of_real(bits, width, scalar))
            case Symbol(name, offset):
                address = self.layout.address(op.line, name) + offset
                return _constant(_of_integer(address, scalar))
            case Special(name):
                return lambda t: t.special(name).astype(scalar.raw)
            case Not(inner):
                read = self.read(op, inner, scalar)
                return lambda t: ~read(t)
            case _:
                raise FormatError(f"PTX line {op.line}: an operand of {op.spelling} cannot be read")

    def _read_register(self, op: Instruction, name: str, scalar: Scalar) -> Read:
        bits, row = self._row(name)
        if bits == scalar.bits:
            key = self._seen(bits, scalar.dtype)
            return lambda t: t.rows[key][row]
        if bits < scalar.bits or 1 in (bits, scalar.bits):
            raise FormatError(
                f"PTX line {op.line}: {name} has {bits} bits, {op.spelling} reads {scalar.bits}"
            )
        key = bits, RAW[bits]
        return lambda t: t.rows[key][row].astype(scalar.raw).view(scalar.dtype)

    def write(self, op: Instruction, operand: Operand, scalar: Scalar) -> Write:
        """Return a function that puts a value of type `scalar` into an operand.

        Into a wider register it goes with its sign, or with zeros.
        """
        if isinstance(operand, Sink):
            return lambda t, lanes, value: None
        if not isinstance(operand, Register):
            raise FormatError(f"PTX line {op.line}: the result of {op.spelling} cannot be written")
        bits, row = self._row(operand.name)
        if bits < scalar.bits or (1 in (bits, scalar.bits) and bits != scalar.bits):
            raise FormatError(
                f"PTX line {op.line}: {operand.name} has {bits} bits, a result {scalar.bits}"
            )
        raw = self._seen(bits, RAW[bits])
        if bits > scalar.bits or scalar.packed > 1:
            wide = np.dtype(f"i{bits // 8}") if scalar.signed else RAW[bits]

            def write_wide(t: Threads, lanes: Lanes, value: Any) -> None:
                value = np.ascontiguousarray(value, scalar.dtype)
                if not scalar.signed:
                    value = value.view(scalar.raw)
                np.copyto(t.rows[raw][row], value.astype(wide).view(raw[1]), where=lanes.where)

            return write_wide
        key = self._seen(bits, scalar.dtype)

        def write(t: Threads, lanes: Lanes, value: Any) -> None:
            np.copyto(t.rows[key][row], value, where=lanes.where, casting="unsafe")

        return write

    def address(self, op: Instruction, operand: Operand) -> Read:
        """Return a function that gives the addresses that `[…]` means, as int64."""
        if not isinstance(operand, Address):
            raise FormatError(f"PTX line {op.line}: {op.spelling} needs an address")
        base, offset = operand.base, operand.offset
        if isinstance(base, Register):
            bits, row = self._row(base.name)
            key = self._seen(bits, np.dtype(np.int64) if bits == 64 else RAW[bits])
            if bits == 64:
                return lambda t: t.rows[key][row] + offset
            return lambda t: t.rows[key][row].astype(np.int64) + offset
        start = self.layout.address(op.line, base.name) + base.offset if base else 0
        return _constant(np.int64(start + offset))


def _constant(value: Any) -> Read:
    return lambda t: value


def _of_integer(value: int, scalar: Scalar) -> Any:
    if scalar.bits == 1:
        return np.bool_(value)
    kept = np.array([value & ((1 << scalar.bits) - 1)], scalar.raw).view(scalar.dtype)
    if scalar.packed == 1:
        return kept[0]
    if kept[0].tobytes() != kept[1].tobytes():
        raise UnsupportedError(f"a packed literal {value:#x} with two different halves")
    return kept[0]


def _of_real(bits: int, width: int, scalar: Scalar) -> Any:
    stored = np.array(bits, RAW[width])
    if not scalar.is_float:
        return _of_integer(bits, scalar)
    value = stored.view(np.float32 if width == 32 else np.float64)[()]
    return value if value.dtype == scalar.dtype else value.astype(scalar.dtype)
