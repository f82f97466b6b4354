"""What PTX text says, as data: modules, functions, variables, instructions and operands."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Register:
    """A virtual register, by a name that is unique in its function."""

    name: str


@dataclass(frozen=True, slots=True)
class Special:
    """A register that the machine fills, such as `%tid.x`."""

    name: str


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer literal."""

    value: int


@dataclass(frozen=True, slots=True)
class Real:
    """A floating-point literal: its bits, as f32 (`0f…`) or f64 (`0d…`, or decimal)."""

    bits: int
    width: int


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable, parameter, label or function, with a displacement in bytes."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """`[base + offset]`; the base is a register, a variable, or nothing."""

    base: Register | Symbol | None
    offset: int


@dataclass(frozen=True, slots=True)
class Box:
    """`[map, {x, y, …}]`: a part of a tensor that a map describes."""

    address: Address
    start: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Vector:
    """`{a, b, …}`, or the parenthesised arguments of a call."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Both:
    """`p|q`: two results."""

    first: Operand
    second: Operand


@dataclass(frozen=True, slots=True)
class Not:
    """`!p`: a predicate, negated."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Sink:
    """`_`: a result that nobody wants."""


Operand = Register | Special | Integer | Real | Symbol | Address | Box | Vector | Both | Not | Sink


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction: the line it is on, its guard, its name in pieces and its operands."""

    line: int
    guard: Operand | None
    name: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]

    @property
    def spelling(self) -> str:
        """The name with its modifiers."""
        return ".".join((self.name, *self.modifiers))


@dataclass(frozen=True, slots=True)
class Variable:
    """Memory with a name: its space, alignment and size in bytes, and what it begins as.

    `size` is None for an array that is as large as a launch says. `initial` holds (element bytes,
    element): integers, or symbols whose addresses are meant.
    """

    name: str
    space: str
    align: int
    size: int | None
    initial: tuple[tuple[int, int | Symbol], ...] = ()
    register: bool = False


@dataclass
class Function:
    """An `.entry` or a `.func`: its signature, directives, and flat body.

    `labels` maps a name to the index of the instruction that follows it, `registers` a unique
    name to its type, `tables` the name of a `.branchtargets` list to labels.
    """

    name: str
    line: int
    entry: bool
    params: list[Variable] = field(default_factory=list[Variable])
    results: list[Variable] = field(default_factory=list[Variable])
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    registers: dict[str, str] = field(default_factory=dict[str, str])
    variables: dict[str, Variable] = field(default_factory=dict[str, Variable])
    body: list[Instruction] = field(default_factory=list[Instruction])
    labels: dict[str, int] = field(default_factory=dict[str, int])
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    defined: bool = False


@dataclass
class Module:
    """A translation unit: its version, target, variables and functions."""

    version: str = ""
    target: str = ""
    variables: dict[str, Variable] = field(default_factory=dict[str, Variable])
    functions: dict[str, Function] = field(default_factory=dict[str, Function])
