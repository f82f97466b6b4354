"""Build pools: what becomes of the elements of each window, channels beside each other.

A program goes through the places of its windows in row order; what is outside of the input leaves
the result as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, IntegerType, f32, i32
from xdsl.ir import Attribute, SSAValue

from lamina.dialects import nn, tile
from lamina.dialects.tensors import extents, is_unsigned, signless
from lamina.errors import LoweringError
from lamina.passes.kernels.dot_kernel import ROWS
from lamina.passes.kernels.folds import Extreme
from lamina.passes.kernels.kernel import Kernel
from lamina.passes.kernels.row_kernel import WIDEST
from lamina.passes.kernels.rows import accumulator, chunk_of, neutral
from lamina.passes.kernels.subscripts import Span
from lamina.passes.kernels.windows import Places, Windows

FOLDS: dict[str, tuple[type[Any], type[Any]]] = {
    "max": (arith.MaximumfOp, arith.MaxSIOp),
    "mean": (arith.AddfOp, arith.AddiOp),
    "add": (arith.AddfOp, arith.AddiOp),
}
"""How elements of a window are brought together, floats and integers."""


def build_pool(group: nn.GroupOp, name: str) -> tile.KernelOp:
    """Build the kernel of a group whose anchor is one `nn.pool`."""
    kernel = Kernel(group, name)
    return _Builder(kernel, kernel.only(nn.PoolOp)).build()


class _Builder:
    def __init__(self, kernel: Kernel, op: nn.PoolOp) -> None:
        self.kernel, self.op = kernel, op
        self.emit, self.tiles = kernel.emit, kernel.tiles
        self.pool, self.source = op.kind.data, nn.element(op.x)
        if len(extents(op.y.type)) != 2:
            raise LoweringError("a pool kernel gives rows of channels")
        if self.pool not in (*FOLDS, "argmax"):
            raise LoweringError(f"no kernel pools by {self.pool}")
        schedule = kernel.group.schedule
        threads = schedule.get("threads", 1) if schedule else 1
        rows = schedule.get("m", ROWS) if schedule else ROWS
        widest = schedule.get("n", WIDEST) if schedule else WIDEST
        self.threads = threads
        self.windows = Windows(kernel, op, rows)
        channels = extents(op.x.type)[-1]
        self.width = chunk_of(channels, widest)
        whole = channels.constant is not None and channels.constant % self.width == 0
        start = self.emit.times(kernel.program(2), self.width)
        self.columns = Span(start, self.width, whole)
        self.programs = channels.ceildiv(self.width)
        self.element = accumulator(signless(self.source))

    def build(self) -> tile.KernelOp:
        """Emit the program and close the kernel."""
        result = self._largest() if self.pool == "argmax" else self._fold()
        self.tiles.fix(self.op.y, self.emit.cast(result, signless(nn.element(self.op.y))))
        self.kernel.store([self.windows.span], self.columns)
        return self.kernel.finish([*self.windows.grid, self.programs])

    def _fold(self) -> SSAValue:
        emit, shape = self.emit, [self.windows.rows, self.width]
        start = emit.full(self._neutral(), self.element, shape)

        def taken(*, inside: bool) -> Sequence[SSAValue]:
            def one(places: Places, acc: Sequence[SSAValue]) -> Sequence[SSAValue]:
                return [self._take(places, acc[0], inside=inside)]

            return self.windows.over([start], one)

        inside: SSAValue | bool = False if self.threads > 1 else self.windows.inside()
        if isinstance(inside, bool):
            (total,) = taken(inside=inside)
        else:
            ways = (lambda: taken(inside=True), lambda: taken(inside=False))
            (total,) = self.tiles.choose(inside, *ways)
        return self._mean(total) if self.pool == "mean" else total

    def _take(self, places: Places, acc: SSAValue, *, inside: bool) -> SSAValue:
        x = self._load(places, inside=inside)
        floating, whole = FOLDS[self.pool]
        if self.pool == "max" and is_unsigned(self.source):
            whole = arith.MaxUIOp
        kind = whole if isinstance(self.element, IntegerType) else floating
        return self.emit.binary(kind, acc, x)

    def _load(self, places: Places, *, inside: bool) -> SSAValue:
        pad = _number(self._neutral(), tile.element_of(self.windows.x.type))
        at = self.windows.at(places)
        x = self.windows.load(at, self.columns, inside=inside, pad=pad)
        return self.emit.cast(x, self.element)

    def _neutral(self) -> float:
        if self.pool not in ("max", "argmax"):
            return 0
        return 0 if is_unsigned(self.source) else neutral("max", self.element)

    def _mean(self, total: SSAValue) -> SSAValue:
        """Return the sums divided by how many elements each is of."""
        if not isinstance(self.element, AnyFloat):
            raise LoweringError(f"no kernel takes the mean of {self.source}")
        emit, shape = self.emit, tile.shape_of(total.type)
        counts = self.windows.counts(padding=self.op.include_pad is not None)
        if counts is None:
            size = 1
            for each in tile.values(self.op.window):
                size *= each
            return emit.binary(arith.DivfOp, total, emit.full(size, self.element, shape))
        number = emit.cast(emit.cast(counts, i32), self.element)
        return emit.binary(arith.DivfOp, total, emit.broadcast(number, [0], shape))

    def _largest(self) -> SSAValue:
        """Return the number of the first of the largest elements of each window."""
        emit, shape = self.emit, [self.windows.rows, self.width]
        flat = shape[0] * shape[1]
        if is_unsigned(self.source):
            raise LoweringError(f"no kernel finds the largest of {self.source}")
        extreme = Extreme(emit, "max", self.element, flat)

        def one(places: Places, carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            x = emit.reshape(self._load(places, inside=False), [flat])
            number, exists = self.windows.numbers(self.windows.at(places))
            number = emit.reshape(emit.broadcast(number, [0], shape), [flat])
            exists = emit.reshape(emit.broadcast(exists, [0], shape), [flat])
            return extreme.step(carried, x, number, exists)

        found = self.windows.over(extreme.start(), one)
        return emit.reshape(extreme.apart(found), shape)


def _number(value: float, kind: Attribute) -> FloatAttr[Any] | IntegerAttr[Any]:
    if isinstance(kind, IntegerType):
        return IntegerAttr(int(value), kind)  # pyright: ignore
    return FloatAttr(float(value), kind if isinstance(kind, AnyFloat) else f32)
