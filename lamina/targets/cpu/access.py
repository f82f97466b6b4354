"""Where the elements of a tile lie in a memref, and which of them exist."""

from __future__ import annotations

from math import gcd, prod

from xdsl.dialects.builtin import IndexType
from xdsl.ir import SSAValue

from lamina.dialects.tile import LoadOp, PrefetchOp, StoreOp, values
from lamina.targets.cpu.emitter import Emitter
from lamina.targets.cpu.integers import (
    add,
    constant,
    displace,
    largest,
    multiply,
    offset,
    smallest,
    subtract,
)
from lamina.targets.cpu.memrefs import alignment
from lamina.targets.cpu.ranges import NATURAL, Range, plus
from lamina.targets.cpu.shuffles import splat
from lamina.targets.cpu.values import Tile

SEGMENT = 256
"""Bytes of a run that share one decision about a row that is outside."""

SLACK = 64
"""A piece may begin just before a segment's end and reach this far beyond."""


class Access:
    """The tile of an access, cut in runs: stretches of elements that are neighbours.

    A run lies inside the bounds as a whole or not at all (`exists`), save that its end may be
    `ragged`: then the lanes that exist are a `mask`.
    """

    def __init__(self, emitter: Emitter, op: LoadOp | PrefetchOp | StoreOp) -> None:
        self.memref = emitter.memref(op.x)
        self.shape = op.tile_shape
        self.size = prod(self.shape)
        self._emitter = emitter
        self._builder = emitter.builder
        self._steps = op.steps
        self._zip = values(op.zip)
        self._at: list[str | Tile] = [self._subscript(at) for at in op.at]
        self._starts = [self._start(op.at[d], d) for d in range(len(self.shape))]
        self._reach = [self._positions(op.at[d], d) for d in range(len(self.shape))]
        self._bounds = self._needed(op)
        self._inner, self.run, self._edge = self._runs()

    @property
    def ragged(self) -> bool:
        """Whether some lanes of a run may be outside."""
        return self._edge is not None

    @property
    def align(self) -> int:
        """The alignment of each run that is certain if the memref is 64-byte aligned."""
        terms = [self.memref.offset, self.run * self.memref.element.size]
        for d, start in enumerate(self._starts):
            stride = self.memref.stride_bytes(d)
            terms.append(self.memref.element.size if stride is None else stride * start.factor)
            if stride is not None and d < self._inner:
                terms.append(stride * self._steps[d])
        return alignment(*terms)

    def pointer(self, run: int, skip: int, outside: str | None) -> str:
        """Return the address of element `skip` of a run; `outside` if the run does not exist."""
        base, fixed = self._base(run)
        size = self.memref.element.size
        exists = self.exists(run) if outside is not None else None
        if exists is None:
            return displace(self._builder, base, fixed + skip * size)
        segment = skip * size // SEGMENT * SEGMENT
        start = displace(self._builder, base, fixed + segment)
        text = f"select i1 {exists}, ptr {start}, ptr {outside}"
        chosen = self._builder.pure(text, exists, start, outside or "")
        return displace(self._builder, chosen, skip * size - segment)

    def reserve(self) -> int:
        """Return how many bytes must be readable or writable in place of a missing run."""
        return min(self.run * self.memref.element.size, SEGMENT) + SLACK

    @property
    def conditional(self) -> bool:
        """Whether some run may be outside as a whole."""
        return any(b is not None and d != self._edge for d, b in enumerate(self._bounds))

    def exists(self, run: int) -> str | None:
        """Return the i1 that says whether a run is inside, None if it surely is."""
        place = self._coordinates(run)
        found: str | None = None
        for d, bound in enumerate(self._bounds):
            if bound is None or d == self._edge:
                continue
            inside = self._inside(self._position(d, place), bound)
            both = f"and i1 {found}, {inside}"
            found = inside if found is None else self._builder.pure(both, found, inside)
        return found

    def mask(self, skip: int, width: int) -> str:
        """Return which of `width` lanes from element `skip` of a run exist."""
        edge = self._edge
        assert edge is not None
        inner = self.run // self.shape[edge]
        start = self._at[edge]
        assert isinstance(start, str)
        end = self._clamped(subtract(self._builder, self._bounds[edge] or "0", start), inner)
        kind = "i8" if self.run < 128 else "i16" if self.run < 1 << 15 else "i32"
        lanes = [str(skip + lane) for lane in range(width)]
        iota = "<" + ", ".join(f"{kind} {lane}" for lane in lanes) + ">"
        if self._reach[edge].natural:
            return self._less(iota, end, kind, width)
        begin = self._clamped(subtract(self._builder, "0", start), inner)
        length = largest(self._builder, subtract(self._builder, end, begin), "0")
        low = self._lanes(begin, kind, width)
        moved = self._builder.pure(f"sub <{width} x {kind}> {iota}, {low}", low)
        return self._less(moved, length, kind, width)

    def _less(self, lanes: str, bound: str, kind: str, width: int) -> str:
        high = self._lanes(bound, kind, width)
        return self._builder.pure(f"icmp ult <{width} x {kind}> {lanes}, {high}", lanes, high)

    def _lanes(self, scalar: str, kind: str, width: int) -> str:
        from lamina.targets.cpu.elements import ELEMENTS

        if scalar.startswith("%"):
            scalar = self._builder.pure(f"trunc i64 {scalar} to {kind}", scalar)
        return splat(self._builder, ELEMENTS[kind], scalar, width)

    def _clamped(self, count: str, inner: int) -> str:
        count = largest(self._builder, count, "0")
        count = smallest(self._builder, count, str(self.run // inner))
        return multiply(self._builder, count, str(inner))

    def _subscript(self, at: SSAValue) -> str | Tile:
        if isinstance(at.type, IndexType):
            return self._emitter.scalar(at)
        return self._emitter.tile(at)

    def _start(self, at: SSAValue, d: int) -> Range:
        text = self._at[d]
        literal = constant(text) if isinstance(text, str) else None
        return self._emitter.range(at) if literal is None else Range.exactly(literal)

    def _positions(self, at: SSAValue, d: int) -> Range:
        if not isinstance(at.type, IndexType):
            return self._starts[d]
        span = self._steps[d] * (self.shape[d] - 1)
        return plus(self._starts[d], Range(min(0, span), max(0, span)))

    def _needed(self, op: LoadOp | PrefetchOp | StoreOp) -> list[str | None]:
        return [
            None if d in values(op.in_bounds) else self._bound(d, op.limits.get(d))
            for d in range(len(self.shape))
        ]

    def _bound(self, d: int, limit: SSAValue | None) -> str | None:
        reach, extent = self._reach[d], self.memref.extents[d]
        count = constant(extent)
        size = NATURAL if count is None else Range.exactly(count)
        most = size
        bound = extent
        if limit is not None:
            text = self._emitter.scalar(limit)
            literal = constant(text)
            most = self._emitter.range(limit) if literal is None else Range.exactly(literal)
            within = most.hi is not None and size.lo is not None and most.hi <= size.lo
            bound = text if within else smallest(self._builder, text, extent)
        if reach.natural and reach.below(size) and reach.below(most):
            return None
        return bound if most.natural else largest(self._builder, bound, "0")

    def _runs(self) -> tuple[int, int, int | None]:
        run, inner, edge = 1, len(self.shape), None
        for d in reversed(range(len(self.shape))):
            if self.shape[d] > 1:
                flat = isinstance(self._at[d], str) and self._steps[d] == 1
                if edge is not None or not flat or constant(self.memref.strides[d]) != run:
                    break
                run *= self.shape[d]
                edge = d if self._bounds[d] is not None else None
            inner = d
        return inner, run, edge

    def _coordinates(self, run: int) -> list[int]:
        place = [0] * len(self.shape)
        for d in reversed(range(self._inner)):
            run, place[d] = divmod(run, self.shape[d])
        if self._zip:
            for d in self._zip:
                place[d] = place[self._zip[0]]
        return place

    def _position(self, d: int, place: list[int]) -> str:
        at = self._at[d]
        if isinstance(at, Tile):
            return at.lane(place[d])
        return add(self._builder, at, str(place[d] * self._steps[d]))

    def _inside(self, position: str, bound: str) -> str:
        p, b = constant(position), constant(bound)
        if p is not None and b is not None:
            return "true" if 0 <= p < b else "false"
        return self._builder.pure(f"icmp ult i64 {position}, {bound}", position, bound)

    def _base(self, run: int) -> tuple[str, int]:
        """Return the part of a run's address that varies, outermost terms first, and the rest."""
        place, size = self._coordinates(run), self.memref.element.size
        terms: list[tuple[str, int]] = []
        fixed = self.memref.offset
        for d, at in enumerate(self._at):
            stride = self.memref.stride_bytes(d)
            index = at.lane(place[d]) if isinstance(at, Tile) else at
            moved = 0 if isinstance(at, Tile) else place[d] * self._steps[d]
            if stride is not None:
                terms.append((index, stride))
                fixed += moved * stride
                continue
            wide = self.memref.strides[d]
            terms.append((multiply(self._builder, index, wide), size))
            terms.append((multiply(self._builder, str(moved), wide), size))
        pointer = self.memref.pointer
        for index, scale in sorted(terms, key=lambda term: self._builder.depth(term[0])):
            known = constant(index)
            if known is not None:
                fixed += known * scale
            else:
                pointer = offset(self._builder, pointer, index, scale)
        return pointer, fixed


def piece(width: int, run: int) -> int:
    """Return the elements of the largest vector that both a part and a run are made of."""
    return gcd(width or 1, run)
