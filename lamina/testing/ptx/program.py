"""A kernel, decoded: a function for each instruction, and what its threads need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lamina.errors import FormatError
from lamina.targets.reference.dtypes import Array
from lamina.testing.ptx.decoder import Decoder, Step
from lamina.testing.ptx.inlining import Flat, flatten
from lamina.testing.ptx.lanes import Lanes
from lamina.testing.ptx.layout import Layout, Place, places
from lamina.testing.ptx.rules import RULES
from lamina.testing.ptx.scalars import SCALARS
from lamina.testing.ptx.syntax import Address, Function, Instruction, Integer, Module, Symbol
from lamina.testing.ptx.threads import Threads

_TOUCHING = ("ld", "st", "atom", "red", "cp", "ldmatrix", "stmatrix", "mbarrier")


_SPACES = {"global", "shared", "shared::cta", "param", "const", "local"}


@dataclass(frozen=True)
class Program:
    """What is needed to run a kernel; `steps` ends with a step that ends every thread.

    `granule` is the smallest number of bytes that it reads or writes of shared memory at once,
    `granule_outside` of global memory, `together` how many warps do an instruction at most.
    """

    name: str
    steps: tuple[Step, ...]
    lines: tuple[int, ...]
    params: tuple[Place, ...]
    registers: Mapping[int, int]
    views: Mapping[int, frozenset[np.dtype[Any]]]
    granule: int
    directives: Mapping[str, tuple[int, ...]]
    layout: Layout
    together: int
    granule_outside: int

    @property
    def local_size(self) -> int:
        """Bytes of local memory a thread."""
        return self.layout.local_size

    @property
    def shared_bytes(self) -> int:
        """Bytes of static shared memory a block."""
        return self.layout.shared_bytes

    @property
    def register_bytes(self) -> int:
        """Bytes that the registers of one thread take here."""
        return sum(count * max(bits // 8, 1) for bits, count in self.registers.items())

    def shared_valid(self, dynamic: int) -> Array:
        """Return which shared bytes belong to a variable."""
        return self.layout.shared_valid(dynamic)

    def shared_name(self, address: int) -> str:
        """Say which shared variable an address lies in."""
        return self.layout.shared_name(address)


def decode(module: Module, kernel: Function, fixed: Mapping[str, int], parameters: int) -> Program:
    """Decode a kernel whose module's variables lie at `fixed` and parameters at an address.

    Raises `UnsupportedError` for an instruction that has no rule, naming the line.
    """
    flat = flatten(module, kernel)
    layout = Layout(module, fixed)
    layout.add_parameters(kernel.params, parameters)
    used = {name for op in flat.body for name in _symbols(op)}
    for name, variable in module.variables.items():
        if variable.space == "shared" and name in used:
            layout.add(variable)
    for variable in flat.variables:
        layout.add(variable)
    layout.settle()
    decoder = Decoder(flat.registers, layout, flat.labels)
    decoder.tables = flat.tables
    steps = [_step(decoder, op) for op in flat.body]
    steps.append(RULES["exit"](decoder, Instruction(kernel.line, None, "exit", (), ())))
    last = flat.body[-1].line if flat.body else kernel.line
    return Program(
        kernel.name,
        tuple(steps),
        (*(op.line for op in flat.body), last),
        tuple(places(kernel.params)),
        decoder.registers,
        {bits: frozenset(seen) for bits, seen in decoder.views.items()},
        _granule(flat),
        kernel.directives,
        layout,
        4 if any(op.name == "wgmma" for op in flat.body) else 1,
        min((_width(op, "global") for op in flat.body if op.name in _TOUCHING), default=16),
    )


def _symbols(op: Instruction) -> list[str]:
    found: list[str] = []
    for operand in op.operands:
        base = operand.base if isinstance(operand, Address) else operand
        if isinstance(base, Symbol):
            found.append(base.name)
    return found


def _step(decoder: Decoder, op: Instruction) -> Step:
    rule = RULES.get(op.name)
    if rule is None:
        raise decoder.unknown(op)
    try:
        step = rule(decoder, op)
    except (IndexError, ValueError) as error:
        raise FormatError(f"PTX line {op.line}: {op.spelling} has wrong operands") from error
    if op.guard is None or op.name == "bra":
        return step
    guard = decoder.read(op, op.guard, SCALARS["pred"])

    def guarded(t: Threads, lanes: Lanes) -> Any:
        chosen = lanes.narrow(guard(t))
        if not chosen.count:
            return None
        moved = step(t, chosen)
        if moved and chosen is not lanes:
            t.go_on(t.pc + 1, lanes.without(chosen))
        return moved

    return guarded


def _granule(flat: Flat) -> int:
    touching = [op for op in flat.body if op.name in _TOUCHING]
    return min((_width(op, "shared") for op in touching), default=16)


def _width(op: Instruction, space: str) -> int:
    """Return the bytes that an instruction reads or writes at once of shared or global memory."""
    if op.name in ("ldmatrix", "stmatrix"):
        return 16
    if op.name == "mbarrier":
        return 8
    if op.name == "cp":
        return _width_of_copy(op, space)
    scalar = SCALARS.get(op.modifiers[-1])
    others = _SPACES - {space, f"{space}::cta"}
    if scalar is None or others & set(op.modifiers):
        return 16
    vector = next((int(word[1:]) for word in op.modifiers if word in ("v2", "v4")), 1)
    return min(vector * scalar.bits // 8, 16)


def _width_of_copy(op: Instruction, space: str) -> int:
    if "bulk" in op.modifiers:
        return 1 if "tensor" in op.modifiers and space == "global" else 16
    size = op.operands[2] if len(op.operands) > 2 else None
    return size.value if isinstance(size, Integer) else 16
