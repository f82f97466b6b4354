"""The engine of the reference target: it walks operations and asks a table what each means."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.traits import IsTerminator, SymbolOpInterface

from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents
from lamina.errors import InputError, LoweringError
from lamina.targets.reference.dtypes import Array, dtype_of

Value = Any
"""An array for a vector, memref or tensor; a NumPy scalar for a scalar; what a dialect likes."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Step:
    """One operation made ready to run; `dead` are the values that nothing reads after it."""

    op: Operation
    meaning: Meaning | None
    operands: tuple[SSAValue, ...]
    results: tuple[SSAValue, ...]
    dead: tuple[SSAValue, ...]


class Program:
    """Operations made ready to run, once for all runs; threads may share it.

    `meanings` says what each operation computes; a terminator needs none: its operands are the
    result of its region.
    """

    def __init__(
        self, meanings: Mapping[type[Operation], Meaning], module: Operation | None = None
    ) -> None:
        self.meanings = meanings
        self.named = _symbols(module)
        self._steps: dict[Block, tuple[_Step, ...]] = {}
        self._facts: dict[tuple[Operation, Callable[..., Any]], Any] = {}

    def steps(self, block: Block) -> tuple[_Step, ...]:
        """Return the operations of `block`; LoweringError names one without a meaning."""
        if block not in self._steps:
            last = _last_uses(block)
            self._steps[block] = tuple(
                _Step(op, self.meaning(op), tuple(op.operands), tuple(op.results), last.get(op, ()))
                for op in block.ops
            )
        return self._steps[block]

    def fact(self, op: Operation, read: Callable[[Any], T]) -> T:
        """Return `read(op)`, which may depend on the text of `op` alone; it is called once."""
        key = (op, read)
        if key not in self._facts:
            self._facts[key] = read(op)
        return self._facts[key]

    def meaning(self, op: Operation) -> Meaning | None:
        """Return what `op` computes, None for a terminator; LoweringError if nobody says."""
        meaning = self.meanings.get(type(op))
        if meaning is None and not op.has_trait(IsTerminator):
            raise LoweringError(f"reference has no meaning for {op.name}")
        return meaning


class Interpreter:
    """One run of a program: the values so far, and what its meanings share.

    `extents` are the values of the symbols that types name. `place` is the grid coordinates of
    the kernel's program that runs; `failed` is the node of the first check that did not hold.
    `rooms` has memory for results that a caller wants somewhere; see `room`. `received` are the
    results of a host call until they are put where they belong. `late` makes values of `@forward`'s
    arguments whose extents no input gives, once all are known. `equal` are pairs of extents that
    have to be equal, each with a node, which are looked at once they are known.
    """

    def __init__(self, program: Program, extents: Mapping[str, int] | None = None) -> None:
        self.program = program
        self.extents: dict[str, int] = dict(extents or {})
        self.place: tuple[int, ...] = ()
        self.failed: str | None = None
        self.rooms: dict[SSAValue, Array] = {}
        self.received: Sequence[Value] = ()
        self.late: dict[SSAValue, Callable[[Interpreter], Value]] = {}
        self.equal: list[tuple[Dim, Dim, str]] = []
        self._values: dict[SSAValue, Value] = {}

    def run_region(self, region: Region, args: Sequence[Value] = ()) -> tuple[Value, ...]:
        """Run a region of one block and return what its terminator passes on; of none, ()."""
        return self.run_block(region.block, args) if region.blocks else ()

    def run_block(self, block: Block, args: Sequence[Value] = ()) -> tuple[Value, ...]:
        """Run a block's operations in order and return what its terminator passes on."""
        values = self._values
        values.update(zip(block.args, args, strict=True))
        for step in self.program.steps(block):
            operands = tuple([values[operand] for operand in step.operands])
            if step.meaning is None:
                return operands
            results = step.meaning(self, step.op, operands)
            values.update(zip(step.results, results, strict=True))
            for value in step.dead:
                del values[value]
        return ()

    def run_op(self, op: Operation, operands: Sequence[Value]) -> Sequence[Value]:
        """Run one operation that is no terminator on these values."""
        meaning = self.program.meaning(op)
        return () if meaning is None else meaning(self, op, tuple(operands))

    def learn(self, symbols: Mapping[str, int]) -> None:
        """Give symbols their values from here on."""
        self.extents.update(symbols)
        for row in list(self.equal):
            a, b, node = row
            if a.symbols | b.symbols <= self.extents.keys():
                self.equal.remove(row)
                sizes = a.evaluate(self.extents), b.evaluate(self.extents)
                if sizes[0] != sizes[1]:
                    raise InputError(f"{node}: an extent is {sizes[0]}, expected {sizes[1]}")
        for argument, make in list(self.late.items()):
            kind = cast("Any", argument.type)
            found = extents(kind.tensor if hasattr(kind, "tensor") else kind)
            if all(extent.symbols <= self.extents.keys() for extent in found):
                self._values[argument] = make(self)
                del self.late[argument]

    def value(self, value: SSAValue) -> Value:
        """Return what a value of an enclosing block, or an operand, is now."""
        return self._values[value]

    def fact(self, op: Operation, read: Callable[[Any], T]) -> T:
        """Return `read(op)`, which may depend on the text of `op` alone; it is called once."""
        return self.program.fact(op, read)

    def symbol(self, name: str) -> Operation:
        """Return the module's operation of that name; LoweringError if it has none."""
        if name not in self.program.named:
            raise LoweringError(f"the module has no symbol @{name}")
        return self.program.named[name]

    def call(self, name: str, args: Sequence[Value]) -> tuple[Value, ...]:
        """Run a function or group of the module, its symbols bound by the arguments' shapes."""
        body = self.symbol(name).regions[0]
        outer = self.extents
        self.extents = {**outer, **bind(tuple(a.type for a in body.block.args), args)}
        try:
            return self.run_region(body, args)
        finally:
            self.extents = outer

    def shape(self, type: Attribute) -> tuple[int, ...]:
        """Return a tensor type's shape under the present values of its symbols."""
        return tuple(extent.evaluate(self.extents) for extent in extents(type))

    def room(self, result: SSAValue) -> Array:
        """Return memory for a tensor: where the caller wants it if anywhere, contents undefined."""
        room = self.rooms.get(result)
        if room is None:
            room = np.empty(self.shape(result.type), dtype_of(result.type))
        return room

    def finish(self) -> None:
        """Raise InputError if a check of the run did not hold; the text names its node."""
        if self.failed is not None:
            raise InputError(f"{self.failed}: a value of the input is out of range")


def bind(
    types: Sequence[Attribute], values: Sequence[Value], known: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Return the symbols' values that make the types of tensors fit their arrays.

    An extent with one unknown symbol, of which it is a linear function, gives that symbol's
    value; `known` are those that have one already. LoweringError if an extent cannot fit.
    """
    pending = [
        (extent, size)
        for type, value in zip(types, values, strict=True)
        if isinstance(type, TensorType)
        for extent, size in zip(extents(cast("Attribute", type)), value.shape, strict=True)
        if extent.symbols
    ]
    found: dict[str, int] = dict(known or {})
    for extent, size in sorted(pending, key=lambda each: len(each[0].symbols)):
        _solve(extent, size, found)
    return {name: found[name] for name in found if name not in (known or {})}


def _solve(extent: Dim, size: int, found: dict[str, int]) -> None:
    unknown = extent.symbols - found.keys()
    if len(unknown) == 1:
        (name,) = unknown
        zero, one = (extent.evaluate({**found, name: n}) for n in (0, 1))
        if one != zero:
            found[name] = (size - zero) // (one - zero)
    if extent.symbols <= found.keys() and extent.evaluate(found) != size:
        raise LoweringError(f"an array has {size} elements where {extent} is expected")


Meaning = Callable[[Interpreter, Any, tuple[Value, ...]], Sequence[Value]]
"""What an operation computes: the operation and its operands' values to its results' values."""


def quiet() -> np.errstate:
    """Return the context in which overflow, NaN and division by zero are values, not warnings."""
    return np.errstate(all="ignore")


def _symbols(module: Operation | None) -> dict[str, Operation]:
    found: dict[str, Operation] = {}
    for op in module.regions[0].block.ops if module is not None else ():
        if (trait := op.get_trait(SymbolOpInterface)) is not None:
            name = trait.get_sym_attr_name(op)
            if name is not None:
                found[name.data] = op
    return found


def _last_uses(block: Block) -> dict[Operation, tuple[SSAValue, ...]]:
    """Map operations of `block` to the values made in `block` that need not outlive them."""
    dead: dict[Operation, tuple[SSAValue, ...]] = {}
    order = {op: n for n, op in enumerate(block.ops)}
    made = [*block.args, *(result for op in block.ops for result in op.results)]
    for value in made:
        users = [block.find_ancestor_op_in_block(use.operation) for use in value.uses]
        owners = [user for user in users if user is not None]
        if not owners and isinstance(value.owner, Operation):
            owners = [value.owner]
        if owners:
            last = max(owners, key=order.__getitem__)
            dead[last] = (*dead.get(last, ()), value)
    return dead
