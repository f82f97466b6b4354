"""Write the operations of one thread: index arithmetic that folds, registers, memory."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, IndexType, VectorType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from lamina.dialects import simt, tile
from lamina.dialects.tile import element_of, shape_of
from lamina.passes.kernels.emit import Emit

Number = int | SSAValue
"""An index that is known now, or a value."""

_INDEX = IndexType()


class Writer(Emit):
    """Appends operations; an index is a number for as long as it can be."""

    def __init__(self, entry: Block) -> None:
        super().__init__(entry, {})
        self._ahead = False

    def add(self, op: Operation) -> SSAValue:
        """Append `op`, or put it ahead of the kernel, and return its first result."""
        return self.hoist(op) if self._ahead else super().add(op)

    def hoist(self, op: Operation) -> SSAValue:
        """Put `op` ahead of the kernel, behind what was put there before."""
        return self._hoist(op)

    @contextmanager
    def ahead(self) -> Generator[None]:
        """Put what is added meanwhile ahead of the kernel."""
        before, self._ahead = self._ahead, True
        yield
        self._ahead = before

    @contextmanager
    def inside(self, block: Block) -> Generator[None]:
        """Append to `block` meanwhile."""
        outer, self.block, memo = self.block, block, dict(self._memo)
        yield
        self.block, self._memo = outer, memo

    def known(self, key: tuple[object, ...], make: Callable[[], SSAValue]) -> SSAValue:
        """Return what was written for `key` in this block or around it, or write it."""
        return self._known(key, make)

    def value(self, x: Number) -> SSAValue:
        """Return an index as a value."""
        return self.index(x) if isinstance(x, int) else x

    def sum(self, *terms: Number) -> Number:
        """Return the sum of indices, scalars or vectors of registers alike."""
        known = sum(term for term in terms if isinstance(term, int))
        scalars = [t for t in terms if not isinstance(t, int) and not shape_of(t.type)]
        vectors = [t for t in terms if not isinstance(t, int) and shape_of(t.type)]
        total: Number = known
        for term in scalars:
            total = term if total == 0 else self.add(arith.AddiOp(self.value(total), term))
        for term in vectors:
            total = term if total == 0 else self._both(arith.AddiOp, total, term)
        return total

    def product(self, a: Number, b: Number) -> Number:
        """Return the product of indices, scalars or vectors of registers alike."""
        if isinstance(a, int) and isinstance(b, int):
            return a * b
        for x, y in ((a, b), (b, a)):
            if isinstance(x, int) and x in (0, 1):
                return y if x else 0
        return self._both(arith.MuliOp, a, b)

    def quotient(self, a: Number, b: int) -> Number:
        """Return a non-negative index divided by a number, rounded down."""
        return a // b if isinstance(a, int) else a if b == 1 else self._both(arith.DivUIOp, a, b)

    def rest(self, a: Number, b: int) -> Number:
        """Return a non-negative index modulo a number."""
        return a % b if isinstance(a, int) else 0 if b == 1 else self._both(arith.RemUIOp, a, b)

    def test(self, kind: str, a: Number, b: Number) -> SSAValue:
        """Return a comparison of indices, scalars or vectors of registers alike."""
        x, y = self._alike(a, b)
        return self.add(tile.CompareOp(kind, x, y))

    def both(self, masks: Sequence[SSAValue]) -> SSAValue | None:
        """Return where all masks hold, scalars or vectors alike; None if there are none."""
        found: SSAValue | None = None
        for mask in sorted(masks, key=lambda each: len(shape_of(each.type))):
            found = mask if found is None else self._both(arith.AndIOp, found, mask)
        return found

    def registers(self, x: Number, count: int) -> SSAValue:
        """Return `count` registers: a vector as it is, a scalar or number in each of them."""
        value = self.value(x)
        return value if shape_of(value.type) else self.add(tile.SplatOp(value, (count,)))

    def numbers(self, numbers: Sequence[int], kind: Attribute = _INDEX) -> Number:
        """Return integers, one for each register; equal ones are one number."""
        if len(set(numbers)) == 1 and isinstance(kind, IndexType):
            return numbers[0]
        return self.dense(kind, numbers)

    def constant(self, value: Attribute) -> SSAValue:
        """Return a constant."""
        return self._constant(value, str(value))

    def dense(self, kind: Attribute, numbers: Sequence[Any]) -> SSAValue:
        """Return a constant for each register."""
        type: Any = VectorType(cast("Any", kind), [len(numbers)])
        one = numbers[:1] if len(set(numbers)) == 1 else numbers
        dense = DenseIntOrFPElementsAttr.from_list(type, list(one))
        return self._constant(dense, f"{kind} {tuple(numbers)!r}")

    def pick(self, x: SSAValue, at: Sequence[int]) -> SSAValue:
        """Return registers of a vector by their numbers; all of them in order are free."""
        if list(at) == list(range(shape_of(x.type)[0])):
            return x
        return self.add(simt.PickOp(x, at))

    def first(self, x: SSAValue) -> SSAValue:
        """Return the first register as a scalar."""
        return self.add(simt.PickOp(x, [0], scalar=True))

    def join(self, xs: Sequence[SSAValue]) -> SSAValue:
        """Return the registers of vectors or scalars side by side; of one vector, itself."""
        return xs[0] if len(xs) == 1 and shape_of(xs[0].type) else self.add(simt.JoinOp(xs))

    def _both(self, kind: type[Any], a: Number, b: Number) -> SSAValue:
        return self.add(kind(*self._alike(a, b)))

    def _alike(self, a: Number, b: Number) -> tuple[SSAValue, SSAValue]:
        x, y = self.value(a), self.value(b)
        counts = [shape_of(each.type)[0] for each in (x, y) if shape_of(each.type)]
        if counts:
            x, y = self.registers(x, counts[0]), self.registers(y, counts[0])
        assert element_of(x.type) == element_of(y.type)
        return x, y
