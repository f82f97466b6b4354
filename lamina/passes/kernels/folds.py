"""How elements are brought together one after another: sums and the like, positions of extremes.

A fold carries vectors of one lane a column, or a lane a place in the chunk of a row, whose lanes
come together at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, i32
from xdsl.ir import Attribute, SSAValue

from lamina.dialects import nn, tile
from lamina.errors import LoweringError
from lamina.passes.kernels.emit import Emit
from lamina.passes.kernels.rows import COMBINE, accumulator, kind_of, neutral
from lamina.passes.kernels.signs import extremes

UNSEEN = 2**31 - 1
"""The position of an extreme before there was one."""


@dataclass(frozen=True)
class Fold:
    """A reduction of `kind` on elements of type `element`, `width` lanes at a time."""

    emit: Emit
    kind: str
    element: Attribute
    width: int

    @staticmethod
    def of(emit: Emit, op: nn.ReduceOp, width: int) -> Fold:
        """Return the fold that is a reduction; LoweringError if there is none of its kind."""
        kind, element = kind_of(op), accumulator(nn.element(op.x))
        if kind.startswith("arg"):
            return Extreme(emit, kind.removeprefix("arg"), element, width)
        if kind not in COMBINE:
            raise LoweringError(f"no kernel reduces by {kind}")
        return Fold(emit, kind, element, width)

    def start(self) -> list[SSAValue]:
        """Return what is carried before the first elements."""
        return [self._neutral()]

    def step(
        self, carried: Sequence[SSAValue], x: SSAValue, place: SSAValue, valid: SSAValue | None
    ) -> list[SSAValue]:
        """Take in `x` [width], whose first place is `place`; lanes that are not `valid` stay."""
        x = extremes(self.emit, x, self.kind, self.element)
        if valid is not None:
            x = self.emit.add(tile.SelectOp(valid, x, self._neutral()))
        return [self._combined(carried[0], x)]

    def across(self, carried: Sequence[SSAValue]) -> SSAValue:
        """Return the result of all lanes: [1]."""
        found = self._together(carried[0], self.kind)
        return extremes(self.emit, found, self.kind, self.element)

    def apart(self, carried: Sequence[SSAValue]) -> SSAValue:
        """Return the result of each lane: [width]."""
        return extremes(self.emit, carried[0], self.kind, self.element)

    def _combined(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.emit.binary(COMBINE[self.kind][isinstance(self.element, IntegerType)], a, b)

    def _neutral(self) -> SSAValue:
        return self.emit.full(neutral(self.kind, self.element), self.element, [self.width])

    def _together(self, lanes: SSAValue, kind: str) -> SSAValue:
        return self.emit.broadcast(self.emit.reduce(lanes, kind, [0]), [], [1])


class Extreme(Fold):
    """The lowest position of the largest (`max`) or smallest element; of a NaN, if there is one."""

    def start(self) -> list[SSAValue]:
        """Return the neutral element, and that none was seen."""
        return [self._neutral(), self._unseen(self.width)]

    def step(
        self, carried: Sequence[SSAValue], x: SSAValue, place: SSAValue, valid: SSAValue | None
    ) -> list[SSAValue]:
        """Keep what is better than before, and its position."""
        best, where = carried
        x = extremes(self.emit, x, self.kind, self.element)
        takes = self._compare("gt" if self.kind == "max" else "lt", x, best)
        if not isinstance(self.element, IntegerType):
            is_first = self._and(self._compare("ne", x, x), self._compare("eq", best, best))
            takes = self._or(takes, is_first)
        takes = self._or(takes, self._compare("eq", where, self._unseen(self.width)))
        if valid is not None:
            takes = self._and(takes, valid)
        return [
            self.emit.add(tile.SelectOp(takes, x, best)),
            self.emit.add(tile.SelectOp(takes, place, where)),
        ]

    def across(self, carried: Sequence[SSAValue]) -> SSAValue:
        """Return the lowest position among the lanes that have the best element."""
        best, where = carried
        most = self.emit.broadcast(self._together(best, self.kind), [0], [self.width])
        equal = self._compare("eq", best, most)
        if not isinstance(self.element, IntegerType):
            equal = self._or(equal, self._compare("ne", best, best))
        where = self.emit.add(tile.SelectOp(equal, where, self._unseen(self.width)))
        return self._seen(self._together(where, "min"), 1)

    def apart(self, carried: Sequence[SSAValue]) -> SSAValue:
        """Return each lane's position."""
        return self._seen(carried[1], self.width)

    def _seen(self, where: SSAValue, width: int) -> SSAValue:
        nothing = self._compare("eq", where, self._unseen(width))
        return self.emit.add(tile.SelectOp(nothing, self.emit.full(0, i32, [width]), where))

    def _unseen(self, width: int) -> SSAValue:
        return self.emit.full(UNSEEN, i32, [width])

    def _compare(self, kind: str, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.emit.add(tile.CompareOp(kind, a, b))

    def _and(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.emit.binary(arith.AndIOp, a, b)

    def _or(self, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.emit.binary(arith.OrIOp, a, b)
