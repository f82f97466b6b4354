"""The windows of a program of a convolution or pool, and the elements that each of them meets.

A program takes some neighbouring windows along one dimension of the positions, its rows. What a
place in the windows meets is one tile of the input: a row a window, channels beside each other.
What is outside of the input is left out by the bounds of that load, so that no padded copy exists;
where a program's windows are all inside, nothing is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, i32
from xdsl.ir import SSAValue

from lamina.dialects import nn, tile
from lamina.dialects.dims import Dim, product
from lamina.dialects.nn_windows import pairs_of, window_count
from lamina.dialects.tensors import extents
from lamina.dialects.tile import values
from lamina.errors import LoweringError
from lamina.passes.kernels.general_geometry import Geometry, geometry_of
from lamina.passes.kernels.kernel import Kernel
from lamina.passes.kernels.rows import chunk_of
from lamina.passes.kernels.subscripts import Span

Places = Sequence[SSAValue]
"""A place in a window: an index in each of its dimensions."""


@dataclass(frozen=True)
class Side:
    """A spatial dimension of the input: its extent, and how windows lie along it."""

    extent: Dim
    stride: int
    size: Dim
    low: Dim
    high: Dim
    step: Dim
    ceil: bool = False

    @property
    def windows(self) -> Dim:
        """How many windows there are."""
        pads = self.low, self.high
        return window_count(self.extent, self.size, self.stride, pads, self.step, ceil=self.ceil)

    @property
    def reach(self) -> Dim:
        """How far the last element of a window is from its first."""
        return (self.size - 1) * self.step


def sides_of(op: nn.ConvOp | nn.PoolOp, shape: Sequence[Dim] = ()) -> tuple[Side, ...]:
    """Return the spatial dimensions of an operation, or of one whose input has another shape."""
    spatial, strides = tuple(shape or extents(op.x.type))[1:], values(op.strides)
    ceil = isinstance(op, nn.PoolOp) and op.ceil is not None
    return tuple(
        Side(extent, stride, side.size, side.low, side.high, side.step, ceil)
        for extent, stride, side in zip(spatial, strides, windows_of(op), strict=False)
    )


def windows_of(op: nn.ConvOp | nn.PoolOp) -> tuple[Geometry, ...]:
    """Return how windows lie in each spatial dimension."""
    if said := geometry_of(op):
        return said
    steps = values(op.dilations) if isinstance(op, nn.ConvOp) else op.steps
    window = op.window if isinstance(op, nn.ConvOp) else values(op.window)
    each = zip(window, pairs_of(values(op.pads)), steps, strict=True)
    return tuple(Geometry(*map(Dim.of, (w, low, high, step))) for w, (low, high), step in each)


def positions_of(op: nn.ConvOp | nn.PoolOp, shape: Sequence[Dim] = ()) -> tuple[Dim, ...]:
    """Return a result's extents but for its channels: images, and windows of each side."""
    images = next(iter(shape or extents(op.x.type)))
    return (images, *(side.windows for side in sides_of(op, shape)))


def along(positions: Sequence[Dim]) -> int:
    """Return the dimension that a program's windows lie along: the last that has several."""
    wide = [d for d, n in enumerate(positions) if n != 1]
    return wide[-1] if wide else len(positions) - 1


def rows_of(positions: Sequence[Dim], most: int, threads: int) -> int:
    """Return how many windows a program takes: at most so many, the last tile well filled.

    A tile takes about as much time beside its rows as a row. The threads of a block share powers
    of two.
    """
    extent = positions[along(positions)]
    if threads > 1:
        return chunk_of(extent, most)
    if extent.constant is None:
        return most
    count = max(1, extent.constant)
    return min(range(1, most + 1), key=lambda m: (-(-count // m) * (m + 1), -m))


class Windows:
    """`rows` windows side by side: those of a program, whose coordinates are its first two."""

    def __init__(self, kernel: Kernel, op: nn.ConvOp | nn.PoolOp, rows: int) -> None:
        self.kernel, self.emit, self.tiles = kernel, kernel.emit, kernel.tiles
        source, self.order = op.x, tuple(range(len(extents(op.x.type))))
        if isinstance(source.owner, nn.TransposeOp):
            source, self.order = source.owner.x, values(source.owner.perm)
        if source not in kernel.tiles.memrefs:
            raise LoweringError(f"{op.name} reads what is in memory")
        self.x = kernel.tiles.memrefs[source]
        self.sides, self.element = sides_of(op), tile.element_of(self.x.type)
        self.ceil = isinstance(op, nn.PoolOp) and op.ceil is not None
        positions = positions_of(op)
        self.along, self.rows = along(positions), rows
        extent = self.extent = positions[self.along]
        self.whole = extent.constant is not None and extent.constant % self.rows == 0
        self._place(positions)

    def _place(self, positions: tuple[Dim, ...]) -> None:
        emit, outer = self.emit, positions[: self.along]
        self.grid = [self.extent.ceildiv(self.rows), product(outer)]
        number = self.kernel.program(1)
        at = self.kernel.unravel(number, outer) if outer else []
        self.row = emit.times(self.kernel.program(0), self.rows)
        zero = emit.index(0)
        where = [*at, self.row, *([zero] * (len(positions) - self.along - 1))]
        self.image = where[0]
        self.first = [
            self._less(emit.times(i, side.stride), side.low)
            for i, side in zip(where[1:], self.sides, strict=True)
        ]
        begin = emit.add(arith.MuliOp(number, emit.extent(self.extent))) if outer else zero
        start = emit.add(arith.AddiOp(begin, self.row)) if outer else self.row
        limit = None
        if not self.whole:
            limit = emit.add(arith.AddiOp(begin, emit.extent(self.extent)))
        self.span = Span(start, self.rows, self.whole, limit)

    def _less(self, a: SSAValue, b: Dim) -> SSAValue:
        return a if b == 0 else self.emit.add(arith.SubiOp(a, self.emit.extent(b)))

    def existing(self) -> SSAValue:
        """Return how many of the rows exist."""
        left = self.emit.add(arith.SubiOp(self.emit.extent(self.extent), self.row))
        return self.emit.add(arith.MinSIOp(left, self.emit.index(self.rows)))

    def _is_row(self, side: int) -> bool:
        return self.along == side + 1

    def _safe(self, side: int) -> bool:
        """Whether no window of any program leaves the input in a spatial dimension."""
        it = self.sides[side]
        whole = self.whole or not self._is_row(side)
        return it.low == 0 and it.high == 0 and not self.ceil and whole

    def inside(self) -> SSAValue | bool:
        """Return whether none of the program's windows leaves the input: surely, never, or if."""
        emit, found = self.emit, list[SSAValue]()
        if self.along == 0 and not self.whole:
            end = emit.plus(self.row, self.rows)
            found.append(self._compare("le", end, emit.extent(self.extent)))
        for d, side in enumerate(self.sides):
            if self._safe(d):
                continue
            span = side.reach + (side.stride * (self.rows - 1) if self._is_row(d) else 0)
            if self._always_leaves(d, span):
                return False
            if side.low != 0:
                found.append(self._compare("ge", self.first[d], emit.index(0)))
            end = self.first[d] if span == 0 else emit.plus(self.first[d], emit.extent(span))
            found.append(self._compare("lt", end, emit.extent(side.extent)))
        if not found:
            return True
        condition = found[0]
        for each in found[1:]:
            condition = emit.binary(arith.AndIOp, condition, each)
        return condition

    def _always_leaves(self, side: int, span: Dim) -> bool:
        """Whether the one tile that there is along a dimension has windows that leave the input."""
        it = self.sides[side]
        low, high = it.low.constant, (span - it.low).constant
        if it.extent.constant is None or it.windows.constant is None or low is None or high is None:
            return False
        tiles = (
            it.windows.constant if not self._is_row(side) else -(-it.windows.constant // self.rows)
        )
        return tiles <= 1 and (low > 0 or high >= it.extent.constant)

    def _compare(self, kind: str, a: SSAValue, b: SSAValue) -> SSAValue:
        return self.emit.add(tile.CompareOp(kind, a, b))

    def over(
        self,
        carried: Sequence[SSAValue],
        body: Callable[[Places, Sequence[SSAValue]], Sequence[SSAValue]],
    ) -> list[SSAValue]:
        """Run `body` on each place in a window, in row order, and return what it carries."""
        emit = self.emit

        def inner(places: list[SSAValue], carried: Sequence[SSAValue]) -> Sequence[SSAValue]:
            if len(places) == len(self.sides):
                return body(places, carried)
            size = self.sides[len(places)].size
            if size == 1:
                return inner([*places, emit.index(0)], carried)

            def one(i: SSAValue, *carried: SSAValue) -> Sequence[SSAValue]:
                return inner([*places, i], carried)

            return self.tiles.loop(emit.index(0), emit.extent(size), emit.index(1), carried, one)

        return list(inner([], carried))

    def at(self, places: Places) -> list[SSAValue]:
        """Return where the first window's element at a place is, in each spatial dimension."""
        emit = self.emit
        moved = (self._moved(i, side) for i, side in zip(places, self.sides, strict=True))
        return [
            first if side.size == 1 else emit.add(arith.AddiOp(first, offset))
            for first, offset, side in zip(self.first, moved, self.sides, strict=True)
        ]

    def _moved(self, place: SSAValue, side: Side) -> SSAValue:
        """Return how far an element of a window is from its first."""
        step = side.step.constant
        if step is not None:
            return self.emit.times(place, step)
        return self.emit.add(arith.MuliOp(place, self.emit.extent(side.step)))

    def load(
        self,
        at: Sequence[SSAValue],
        channels: Span,
        *,
        inside: bool,
        pad: FloatAttr[Any] | IntegerAttr[Any] | None = None,
    ) -> SSAValue:
        """Return what is at a place of each window: [rows, channels]; `pad` where nothing is."""
        last = len(self.sides) + 1
        shape, step = [1] * last + [channels.size], [1] * (last + 1)
        shape[self.along] = self.rows
        if self.along:
            step[self.along] = self.sides[self.along - 1].stride
        bounds = [d for d in range(1, last) if inside or self._safe(d - 1)]
        if inside or self.whole or self.along:
            bounds.insert(0, 0)
        if channels.inside and channels.limit is None:
            bounds.append(last)
        limits = {} if channels.limit is None else {last: channels.limit}
        at = [self.image, *at, channels.start]
        places = [self.order.index(d) for d in range(last + 1)]
        turned = self.order[last] < self.order[self.along]
        size = [self.rows, channels.size]
        kind = tile.vector(self.element, size[::-1] if turned else size)
        loaded = self.emit.add(
            tile.LoadOp(
                self.x,
                [at[d] for d in places],
                [shape[d] for d in places],
                kind,
                limits={self.order[d]: limit for d, limit in limits.items()},
                step=[step[d] for d in places] if max(step) > 1 else (),
                in_bounds=sorted(self.order[d] for d in bounds),
                pad=pad,
            )
        )
        return self.emit.add(tile.TransposeOp(loaded, [1, 0])) if turned else loaded

    def counts(self, *, padding: bool) -> SSAValue | None:
        """Return how many elements each window has: [rows] index, None if always all.

        With `padding`, that counts too.
        """
        emit, total = self.emit, None
        varying = [d for d in range(len(self.sides)) if not self._safe(d)]
        if not varying or (padding and not self.ceil):
            return None
        rest = 1
        for d, side in enumerate(self.sides):
            if d not in varying:
                rest *= side.size.evaluate({})
                continue
            count = self._count(d, padding=padding)
            total = count if total is None else emit.binary(arith.MuliOp, total, count)
        assert total is not None
        return emit.binary(arith.MuliOp, total, emit.full(rest, IndexType(), [self.rows]))

    def _count(self, d: int, *, padding: bool) -> SSAValue:
        emit, side = self.emit, self.sides[d]
        first = self._vector(d, self.first[d])
        low, high = (side.low, side.high) if padding else (Dim.of(0), Dim.of(0))
        below = self._below(first, emit.extent(side.extent + high), side)
        if not padding and side.low == 0:
            return below
        return emit.binary(arith.SubiOp, below, self._below(first, emit.extent(-low), side))

    def _below(self, first: SSAValue, bound: SSAValue, side: Side) -> SSAValue:
        """Return how many elements of each window are before a bound: [rows] index."""
        emit, shape = self.emit, [self.rows]
        room = emit.binary(arith.SubiOp, emit.add(tile.SplatOp(bound, shape)), first)
        room = emit.binary(arith.MaxSIOp, room, emit.full(0, IndexType(), shape))
        step, size = side.step.evaluate({}), side.size.evaluate({})
        if step > 1:
            room = emit.binary(arith.AddiOp, room, emit.full(step - 1, IndexType(), shape))
            room = emit.binary(arith.DivUIOp, room, emit.full(step, IndexType(), shape))
        return emit.binary(arith.MinSIOp, room, emit.full(size, IndexType(), shape))

    def _vector(self, d: int, first: SSAValue) -> SSAValue:
        """Return where each window's element is in a dimension, given the first one's: [rows]."""
        emit, start = self.emit, self.emit.add(tile.SplatOp(first, [self.rows]))
        if not self._is_row(d):
            return start
        apart = emit.full(self.sides[d].stride, IndexType(), [self.rows])
        rows = emit.binary(arith.MuliOp, emit.add(tile.IotaOp(IndexType(), self.rows)), apart)
        return emit.binary(arith.AddiOp, rows, start)

    def numbers(self, at: Sequence[SSAValue]) -> tuple[SSAValue, SSAValue]:
        """Return the number of each window's element at a place, and whether it exists: [rows].

        Elements are numbered, as i32, in row order of the spatial dimensions.
        """
        emit, shape = self.emit, [self.rows]
        number: SSAValue | None = None
        exists: SSAValue | None = None
        for d, side in enumerate(self.sides):
            extent = emit.add(tile.SplatOp(emit.extent(side.extent), shape))
            place = self._vector(d, at[d])
            zero = emit.full(0, IndexType(), shape)
            here = emit.binary(
                arith.AndIOp, self._compare("ge", place, zero), self._compare("lt", place, extent)
            )
            if number is None or exists is None:
                number, exists = place, here
                continue
            number = emit.binary(arith.AddiOp, emit.binary(arith.MuliOp, number, extent), place)
            exists = emit.binary(arith.AndIOp, exists, here)
        assert number is not None
        assert exists is not None
        return emit.cast(number, i32), exists
