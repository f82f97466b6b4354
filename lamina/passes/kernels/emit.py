"""Write the operations of a kernel: constants once, arithmetic, loops with carried values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any, cast

from xdsl.dialects import arith, math, scf
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    UnitAttr,
    VectorType,
    f32,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from lamina.dialects import tile
from lamina.dialects.dims import Atom, Dim
from lamina.dialects.tensors import signless
from lamina.passes.formulas.exponentials import NONPOSITIVE

Body = Callable[..., Sequence[SSAValue]]

_INDEX = IndexType()
_FUNCTIONS: dict[str, type[Any]] = {
    "floordiv": arith.DivUIOp,
    "mod": arith.RemUIOp,
    "min": arith.MinSIOp,
    "max": arith.MaxSIOp,
}


_LONG = 1e6
"""From here on a float may have too many digits for its text."""


class Emit:
    """Appends operations to a kernel's current block; constants go to the entry block, once."""

    def __init__(self, entry: Block, symbols: dict[str, SSAValue]) -> None:
        self.entry = entry
        self.block = entry
        self.symbols = symbols
        self._constants: dict[str, SSAValue] = {}
        self._extents: dict[str, SSAValue] = {}
        self._memo: dict[tuple[object, ...], SSAValue] = {}
        self._last: Operation | None = None

    def add(self, op: Operation) -> SSAValue:
        """Append `op` and return its first result."""
        self.block.add_op(op)
        return op.results[0]

    def effect(self, op: Operation) -> None:
        """Append `op`, which has no result."""
        self.block.add_op(op)

    def _constant(self, value: Any, key: str) -> SSAValue:
        if key not in self._constants:
            self._constants[key] = self._hoist(arith.ConstantOp(value))
        return self._constants[key]

    def _hoist(self, op: Operation) -> SSAValue:
        """Put `op` after what was hoisted before, at the head of the entry block."""
        if self._last is not None:
            self.entry.insert_op_after(op, self._last)
        elif self.entry.first_op is not None:
            self.entry.insert_op_before(op, self.entry.first_op)
        else:
            self.entry.add_op(op)
        self._last = op
        return op.results[0]

    def index(self, value: int) -> SSAValue:
        """Return an index constant."""
        return self._constant(IntegerAttr(value, _INDEX), f"index {value}")

    def scalar(self, value: float, kind: Attribute = f32) -> SSAValue:
        """Return a scalar constant of a float or integer type."""
        kind = signless(kind)
        if isinstance(kind, IntegerType):
            whole = cast("IntegerType[Any]", kind)
            number = IntegerAttr(_wrapped(value, whole), whole)
            return self._constant(number, f"{kind} {value}")
        if isinstance(kind, IndexType):
            return self.index(int(value))
        return self._constant(FloatAttr(float(value), kind), f"{kind} {value!r}")  # pyright: ignore[reportArgumentType, reportCallIssue]

    def full(self, value: float, kind: Attribute, shape: Sequence[int]) -> SSAValue:
        """Return a vector with one value everywhere; for shape (), the scalar."""
        kind = signless(kind)
        # Text has infinities and long floats as bits, which a vector reads as numbers.
        apart = not isfinite(value) or (isinstance(kind, AnyFloat) and abs(value) >= _LONG)
        if not shape or isinstance(kind, IndexType) or apart:
            scalar = self.scalar(value, kind)
            return self._splat(scalar, shape) if shape else scalar
        whole = isinstance(kind, IntegerType)
        item = _wrapped(value, cast("IntegerType[Any]", kind)) if whole else float(value)
        type: Any = VectorType(cast("Any", kind), list(shape))
        dense = DenseIntOrFPElementsAttr.from_list(type, [item])
        return self._constant(dense, f"{kind} {value!r} {tuple(shape)}")

    def _splat(self, scalar: SSAValue, shape: Sequence[int]) -> SSAValue:
        key = f"splat {id(scalar)} {tuple(shape)}"
        if key not in self._constants:
            self._constants[key] = self._hoist(tile.SplatOp(scalar, shape))
        return self._constants[key]

    def scratch(self, kind: Attribute, shape: Sequence[int]) -> SSAValue:
        """Return memory of the program, a memref."""
        return self._hoist(tile.ScratchOp(kind, shape))

    def extent(self, dim: Dim | int) -> SSAValue:
        """Return an extent as an index, computed once at the head of the kernel."""
        dim = Dim.of(dim)
        if dim.constant is not None:
            return self.index(dim.constant)
        if str(dim) not in self._extents:
            self._extents[str(dim)] = self._polynomial(dim)
        return self._extents[str(dim)]

    def _polynomial(self, dim: Dim) -> SSAValue:
        total: SSAValue | None = None
        for coefficient, atoms in dim.terms:
            term = None if coefficient == 1 and atoms else self.index(coefficient)
            for atom in atoms:
                factor = self._atom(atom)
                term = factor if term is None else self._hoist(arith.MuliOp(term, factor))
            assert term is not None
            total = term if total is None else self._hoist(arith.AddiOp(total, term))
        assert total is not None
        return total

    def _atom(self, atom: Atom) -> SSAValue:
        if isinstance(atom, str):
            return self.symbols[atom]
        name, a, b = atom
        if name == "ceildiv":
            return self._atom(("floordiv", a + b - 1, b))
        return self._hoist(_FUNCTIONS[name](self.extent(a), self.extent(b)))

    def binary(self, kind: type[Any], a: SSAValue, b: SSAValue) -> SSAValue:
        """Append a two-operand operation."""
        return self.add(kind(a, b))

    def plus(self, a: SSAValue, b: SSAValue | int) -> SSAValue:
        """Return the sum of indices; adding 0 is free."""
        if b == 0:
            return a
        return self.add(arith.AddiOp(a, self.index(b) if isinstance(b, int) else b))

    def times(self, a: SSAValue, b: int) -> SSAValue:
        """Return an index times a number; what `exactly_over` divided comes back as it was."""
        if b == 1:
            return a
        return self._known(("times", a, b), lambda: self.add(arith.MuliOp(a, self.index(b))))

    def over(self, a: SSAValue, b: int) -> SSAValue:
        """Return a non-negative index divided by a number, rounded down."""
        if b == 1:
            return a
        return self._known(("over", a, b), lambda: self.add(arith.DivUIOp(a, self.index(b))))

    def exactly_over(self, a: SSAValue, b: int) -> SSAValue:
        """Return an index divided by a number that divides it."""
        quotient = self.over(a, b)
        self._memo[("times", quotient, b)] = a
        return quotient

    def modulo(self, a: SSAValue, b: int) -> SSAValue:
        """Return a non-negative index modulo a number."""
        if b == 1:
            return self.index(0)
        return self._known(("modulo", a, b), lambda: self.add(arith.RemUIOp(a, self.index(b))))

    def _known(self, key: tuple[object, ...], make: Callable[[], SSAValue]) -> SSAValue:
        """Return what was emitted for `key` in this block or around it, or emit it."""
        if key not in self._memo:
            self._memo[key] = make()
        return self._memo[key]

    def fma(self, a: SSAValue, b: SSAValue, c: SSAValue) -> SSAValue:
        """Return `a * b + c`, rounded once."""
        return self.add(math.FmaOp(a, b, c))

    def decay(self, x: SSAValue) -> SSAValue:
        """Return e^x of an x <= 0; what is below 2^-126 may be 0."""
        op = math.ExpOp(x)
        op.attributes[NONPOSITIVE] = UnitAttr()
        return self.add(op)

    def cast(self, x: SSAValue, kind: Attribute, *, unsigned: bool = False) -> SSAValue:
        """Return `x` with elements of another type; the same type is free."""
        kind = signless(kind)
        if tile.element_of(x.type) == kind:
            return x
        return self.add(tile.CastOp(x, kind, unsigned=unsigned))

    def reshape(self, x: SSAValue, shape: Sequence[int]) -> SSAValue:
        """Return `x` under another shape; the same shape is free."""
        return x if tile.shape_of(x.type) == tuple(shape) else self.add(tile.ReshapeOp(x, shape))

    def broadcast(self, x: SSAValue, dims: Sequence[int], shape: Sequence[int]) -> SSAValue:
        """Return `x` repeated along new dimensions; the same shape is free."""
        if tile.shape_of(x.type) == tuple(shape):
            return x
        if not tile.shape_of(x.type):
            return self.add(tile.SplatOp(x, shape))
        return self.add(tile.BroadcastOp(x, dims, shape))

    def reduce(self, x: SSAValue, kind: str, dims: Sequence[int]) -> SSAValue:
        """Return `x` reduced over dimensions."""
        return self.add(tile.ReduceOp(x, kind, dims))

    def loop(
        self,
        low: SSAValue,
        high: SSAValue,
        step: SSAValue,
        carried: Sequence[SSAValue],
        body: Body,
    ) -> list[SSAValue]:
        """Append `for i in low..high by step` and return what it carries at its end.

        `body(i, *carried)` emits one round and returns the values for the next.
        """
        block = Block(arg_types=[_INDEX, *(value.type for value in carried)])
        outer, self.block, memo = self.block, block, dict(self._memo)
        results = list(body(*block.args))
        block.add_op(scf.YieldOp(*results))
        self.block, self._memo = outer, memo
        op = scf.ForOp(low, high, step, list(carried), block)
        self.block.add_op(op)
        return list(op.results)

    def when(
        self,
        condition: SSAValue,
        body: Callable[[], None],
        otherwise: Callable[[], None] | None = None,
    ) -> None:
        """Append `if condition` without results."""
        then = self._branch(body)
        other = None if otherwise is None else [self._branch(otherwise)]
        self.block.add_op(scf.IfOp(condition, [], [then], other))

    def choose(
        self,
        condition: SSAValue,
        body: Callable[[], Sequence[SSAValue]],
        otherwise: Callable[[], Sequence[SSAValue]],
    ) -> list[SSAValue]:
        """Append `if condition` and return its results, which both ways give."""
        found: list[Sequence[SSAValue]] = []
        blocks: list[Block] = []
        for way in (body, otherwise):
            block = Block()
            outer, self.block, memo = self.block, block, dict(self._memo)
            found.append(way())
            block.add_op(scf.YieldOp(*found[-1]))
            self.block, self._memo = outer, memo
            blocks.append(block)
        op = scf.IfOp(condition, [y.type for y in found[0]], [blocks[0]], [blocks[1]])
        self.block.add_op(op)
        return list(op.results)

    def _branch(self, body: Callable[[], None]) -> Block:
        block = Block()
        outer, self.block, memo = self.block, block, dict(self._memo)
        body()
        block.add_op(scf.YieldOp())
        self.block, self._memo = outer, memo
        return block

    def less(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """Return `a < b` of indices as i1."""
        return self.add(tile.CompareOp("lt", a, b))


def _wrapped(value: float, kind: Attribute) -> int:
    """Return a whole number as the signed one that has its bits."""
    number, bits = int(value), cast("IntegerType[Any, Any]", kind).width.data
    return number - (1 << bits) if bits > 1 and number >= 1 << bits - 1 else number
