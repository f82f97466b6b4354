"""Build recurrent networks: a program takes some rows of the batch through all steps.

It keeps their states in its memory. Every step goes through the state's columns, some at a time:
what the last state gives to the gates of those, as a product, then the functions. Sums begin with
what the input gives, and go up in the last state's columns: one chain of fused multiply-adds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import IndexType, f32, i32
from xdsl.ir import SSAValue

from lamina.dialects import nn, tile
from lamina.dialects.tensors import extents
from lamina.errors import LoweringError
from lamina.passes.kernels.gate_functions import applied
from lamina.passes.kernels.kernel import Kernel
from lamina.passes.kernels.rows import chunk_of
from lamina.passes.kernels.subscripts import Index, Span

ROWS = 4
"""Rows of the batch that a program takes, if their number is known."""

SUMS = 64
"""Sums of a gate in registers, of which there are up to four times as many."""

MOST = 32
"""Columns of the state that are computed at once."""

STEP = 4
"""Columns of the last state that are multiplied at once."""

KEPT: dict[str, tuple[str, ...]] = {"rnn": (), "gru": ("z", "reset"), "lstm": ("c",)}
"""What a program keeps beside h: a second state, or gates until all of them are known."""


def build_recurrent(group: nn.GroupOp, name: str) -> tile.KernelOp:
    """Build the kernel of a group that is one `nn.recurrent`."""
    kernel = Kernel(group, name)
    op = kernel.only(nn.RecurrentOp)
    if nn.element(op.x) != f32:
        raise LoweringError(f"no recurrent kernel of {nn.element(op.x)}")
    return _Builder(kernel, op).build()


@dataclass(frozen=True)
class _Step:
    """One step: its place in x, which of the two memories of h is old, and which rows go on."""

    t: Span
    old: Span
    new: Span
    going: SSAValue | None


class _Builder:
    def __init__(self, kernel: Kernel, op: nn.RecurrentOp) -> None:
        self.kernel, self.op = kernel, op
        self.emit, self.tiles = kernel.emit, kernel.tiles
        self.steps, self.batch, _, extent = extents(op.x.type)
        self.width = extent.evaluate({})
        count = self.batch.constant
        self.rows = 1 if count is None else min(ROWS, max(1, count))
        self.columns = chunk_of(extent, min(MOST, SUMS // self.rows))
        self.depth = min(STEP, self.columns)
        self.padded = -(-self.width // self.columns) * self.columns
        self.shape = [self.rows, self.columns]
        start = self.emit.times(kernel.program(0), self.rows)
        whole = count is not None and count % self.rows == 0
        self.span = Span(start, self.rows, inside=whole)
        self.all_rows = Span(self.emit.index(0), self.rows, inside=True)
        self.h = self.emit.scratch(f32, [2, self.rows, self.padded])
        kept = KEPT[op.cell.data] + (() if op.levels is None else ("levels",))
        self.kept = {each: self.emit.scratch(f32, [self.rows, self.padded]) for each in kept}

    def build(self) -> tile.KernelOp:
        """Emit the first states, the steps and the last states; close the kernel."""
        emit, op = self.emit, self.op
        lengths = self._load("lengths", (self.span,)) if op.role("lengths") else None
        first = self._one(emit.index(0))
        self._columns(lambda at: self._begin(first, at))

        def step(i: SSAValue) -> None:
            back = op.reverse is not None
            t = emit.add(arith.SubiOp(emit.extent(self.steps - 1), i)) if back else i
            old = emit.modulo(i, 2)
            new = emit.add(arith.SubiOp(emit.index(1), old))
            going = None if lengths is None else self._going(t, lengths)
            self._step(_Step(self._one(t), self._one(old), self._one(new), going))

        self.tiles.each(emit.extent(self.steps), step)
        last = self._one(emit.modulo(emit.extent(self.steps), 2))
        self._columns(lambda at: self._end(last, at))
        return self.kernel.finish([self.batch.ceildiv(self.rows)])

    def _columns(self, body: Callable[[Span], None]) -> None:
        """Run `body` on columns of the state after columns; the last ones may not all exist."""
        whole = self.padded == self.width
        self.tiles.each(
            self.padded, lambda j: body(Span(j, self.columns, inside=whole)), self.columns
        )

    def _one(self, index: SSAValue) -> Span:
        return Span(index, 1, inside=True)

    def _going(self, t: SSAValue, lengths: SSAValue) -> SSAValue:
        """Return which rows have a step."""
        number = self.emit.add(tile.SplatOp(self.emit.cast(t, i32), [self.rows]))
        going = self.emit.add(tile.CompareOp("lt", number, lengths))
        return self.emit.broadcast(going, [0], self.shape)

    # Memory

    def _load(self, role: str, index: Index) -> SSAValue:
        value = self.op.role(role)
        assert value is not None
        return self.tiles.tile_of(value, index)

    def _own(self, at: Span) -> Span:
        """Return columns as those of the program's memory, which has all of them."""
        return Span(at.start, at.size, inside=True)

    def _state(self, which: Span, at: Span) -> SSAValue:
        h = self.tiles.load(self.h, (which, self.all_rows, self._own(at)))
        return self.emit.reshape(h, [self.rows, at.size])

    def _set_state(self, which: Span, at: Span, h: SSAValue) -> None:
        h = self.emit.reshape(h, [1, *self.shape])
        self.tiles.store(h, self.h, (which, self.all_rows, self._own(at)))

    def _get(self, name: str, at: Span) -> SSAValue:
        return self.tiles.load(self.kept[name], (self.all_rows, self._own(at)))

    def _keep(self, name: str, at: Span, value: SSAValue) -> None:
        self.tiles.store(value, self.kept[name], (self.all_rows, self._own(at)))

    def _begin(self, first: Span, at: Span) -> None:
        self._set_state(first, at, self._load("h", (self.span, at)))
        if self.op.role("c") is not None:
            self._keep("c", at, self._load("c", (self.span, at)))

    def _end(self, last: Span, at: Span) -> None:
        self.tiles.store(self._state(last, at), self.kernel.result(1), (self.span, at))
        if self.op.role("c") is not None:
            self.tiles.store(self._get("c", at), self.kernel.result(2), (self.span, at))

    # A step

    def _step(self, step: _Step) -> None:
        if self.op.levels is not None:
            self._find_levels(step)
        match self.op.cell.data:
            case "rnn":
                self._columns(lambda at: self._put(step, at, self._rnn(step, at)))
            case "lstm":
                self._columns(lambda at: self._put(step, at, self._lstm(step, at)))
            case _ if self.op.linear is not None:
                self._columns(lambda at: self._put(step, at, self._linear_gru(step, at)))
            case _:
                self._columns(lambda at: self._reset(step, at))
                self._columns(lambda at: self._put(step, at, self._gru(step, at)))

    def _put(self, step: _Step, at: Span, h: SSAValue) -> None:
        """Store a new state; that of rows that are at their end is the old one, and y is 0."""
        emit, y = self.emit, h
        if step.going is not None:
            h = emit.add(tile.SelectOp(step.going, h, self._state(step.old, at)))
            y = emit.add(tile.SelectOp(step.going, y, self._number(0)))
        self._set_state(step.new, at, h)
        y = emit.reshape(y, [1, *self.shape])
        self.tiles.store(y, self.kernel.result(0), (step.t, self.span, at))

    def _sums(
        self,
        step: _Step,
        at: Span,
        gates: Sequence[int],
        start: Sequence[SSAValue | None] = (),
        state: Callable[[Span], SSAValue] | None = None,
    ) -> list[SSAValue]:
        """Return for some gates what the input and the old state give; without `start`, x's."""
        emit = self.emit
        given = [*start, *[None] * (len(gates) - len(start))]
        sums = [
            self._input(step, gate, at) if each is None else each
            for gate, each in zip(gates, given, strict=True)
        ]

        def some(k: SSAValue, *sums: SSAValue) -> Sequence[SSAValue]:
            rows = Span(k, self.depth, inside=self.width % self.depth == 0)
            a = state(rows) if state else self._multiplied(step, rows)
            found: list[SSAValue] = []
            for gate, acc in zip(gates, sums, strict=True):
                b = self._load("r", (rows, self._gate(gate), at))
                b = emit.reshape(b, [self.depth, self.columns])
                found.append(emit.add(tile.DotOp(a, b, acc, [(1, 0)])))
            return found

        end = -(-self.width // self.depth) * self.depth
        return self.tiles.loop(emit.index(0), emit.index(end), emit.index(self.depth), sums, some)

    def _multiplied(self, step: _Step, at: Span) -> SSAValue:
        """Return columns of the old state as they meet their weights."""
        if self.op.levels is not None:
            return self._get("levels", at)
        return self._state(step.old, at)

    def _find_levels(self, step: _Step) -> None:
        """Keep the old state as the nearest of 256 levels between its rows' ends and 0."""
        emit = self.emit

        def ends(j: SSAValue, low: SSAValue, high: SSAValue) -> Sequence[SSAValue]:
            h = self._existing(Span(j, self.columns), self._state(step.old, Span(j, self.columns)))
            return [
                emit.binary(arith.MinimumfOp, low, h),
                emit.binary(arith.MaximumfOp, high, h),
            ]

        bounds = emit.index(0), emit.index(self.padded), emit.index(self.columns)
        low, high = self.tiles.loop(*bounds, [self._number(0), self._number(0)], ends)
        low, high = emit.reduce(low, "min", [1]), emit.reduce(high, "max", [1])
        wide = [emit.broadcast(each, [0], self.shape) for each in (low, high)]
        scale = emit.binary(arith.SubfOp, wide[1], wide[0])
        scale = emit.binary(arith.DivfOp, scale, self._number(255))
        some = emit.add(tile.CompareOp("gt", scale, self._number(0)))
        scale = emit.add(tile.SelectOp(some, scale, self._number(1)))
        zero = emit.binary(arith.DivfOp, emit.add(arith.NegfOp(wide[0])), scale)
        zero = emit.add(math.RoundEvenOp(zero))

        def keep(at: Span) -> None:
            q = emit.binary(arith.DivfOp, self._state(step.old, at), scale)
            q = emit.binary(arith.AddfOp, emit.add(math.RoundEvenOp(q)), zero)
            q = emit.binary(arith.MaximumfOp, q, self._number(0))
            q = emit.binary(arith.MinimumfOp, q, self._number(255))
            q = emit.binary(arith.SubfOp, q, zero)
            self._keep("levels", at, emit.binary(arith.MulfOp, q, scale))

        self._columns(keep)

    def _existing(self, at: Span, x: SSAValue) -> SSAValue:
        """Return columns of the state, 0 where there are none."""
        if self.padded == self.width:
            return x
        emit = self.emit
        places = emit.add(tile.IotaOp(IndexType(), self.columns))
        places = emit.binary(arith.AddiOp, places, emit.add(tile.SplatOp(at.start, [self.columns])))
        last = emit.full(self.width, IndexType(), [self.columns])
        inside = emit.broadcast(emit.add(tile.CompareOp("lt", places, last)), [1], self.shape)
        return emit.add(tile.SelectOp(inside, x, self._number(0)))

    def _gate(self, gate: int) -> Span:
        return self._one(self.emit.index(gate))

    def _input(self, step: _Step, gate: int, at: Span) -> SSAValue:
        x = self._load("x", (step.t, self.span, self._gate(gate), at))
        return self.emit.reshape(x, self.shape)

    def _number(self, value: float) -> SSAValue:
        return self.emit.full(value, f32, self.shape)

    def _apply(self, number: int, x: SSAValue) -> SSAValue:
        """Return a function of the cell, of what may be bounded."""
        emit, bound = self.emit, self.op.bound(number)
        if bound is not None:
            x = emit.binary(arith.MaximumfOp, x, self._number(-bound))
            x = emit.binary(arith.MinimumfOp, x, self._number(bound))
        return applied(emit, *self.op.activations[number], x)

    # Cells

    def _rnn(self, step: _Step, at: Span) -> SSAValue:
        (s,) = self._sums(step, at, [0])
        return self._apply(0, s)

    def _lstm(self, step: _Step, at: Span) -> SSAValue:
        emit, coupled = self.emit, self.op.coupled is not None
        i, o, *f, g = self._sums(step, at, [0, 1, 3] if coupled else [0, 1, 2, 3])
        c = self._get("c", at)
        i = self._apply(0, self._peeped(0, i, c, at))
        if coupled:
            forget = emit.binary(arith.SubfOp, self._number(1), i)
        else:
            forget = self._apply(0, self._peeped(2, f[0], c, at))
        added = emit.binary(arith.MulfOp, i, self._apply(1, g))
        new = emit.fma(forget, c, added)
        o = self._apply(0, self._peeped(1, o, new, at))
        h = emit.binary(arith.MulfOp, o, self._apply(2, new))
        if step.going is not None:
            new = emit.add(tile.SelectOp(step.going, new, c))
        self._keep("c", at, new)
        return h

    def _peeped(self, number: int, s: SSAValue, c: SSAValue, at: Span) -> SSAValue:
        """Return a gate's sum plus what the cell's state gives to it."""
        if self.op.role("peepholes") is None:
            return s
        p = self._load("peepholes", (self._gate(number), at))
        p = self.emit.reshape(p, [self.columns])
        return self.emit.fma(self.emit.broadcast(p, [1], self.shape), c, s)

    def _linear_gru(self, step: _Step, at: Span) -> SSAValue:
        emit = self.emit
        bias = self._number(0)
        if self.op.role("bias") is not None:
            bias = emit.broadcast(self._load("bias", (at,)), [1], self.shape)
        z, reset, s = self._sums(step, at, [0, 1, 2], [None, None, bias])
        n = self._apply(1, emit.fma(self._apply(0, reset), s, self._input(step, 2, at)))
        return self._blended(step, at, z, n)

    def _reset(self, step: _Step, at: Span) -> None:
        """Keep the sum of z, and the old state as far as it is not reset."""
        z, reset = self._sums(step, at, [0, 1])
        kept = self.emit.binary(arith.MulfOp, self._apply(0, reset), self._state(step.old, at))
        self._keep("z", at, z)
        self._keep("reset", at, kept)

    def _gru(self, step: _Step, at: Span) -> SSAValue:
        (s,) = self._sums(step, at, [2], state=lambda rows: self._get("reset", rows))
        return self._blended(step, at, self._get("z", at), self._apply(1, s))

    def _blended(self, step: _Step, at: Span, s: SSAValue, n: SSAValue) -> SSAValue:
        """Return `(1 - z) n + z h` for the sum of z."""
        emit, z = self.emit, self._apply(0, s)
        if self.op.activations[0][0] == "sigmoid":
            # Of 1 - z as a difference nothing would be left where z is near 1.
            rest = self._apply(0, emit.add(arith.NegfOp(s)))
        else:
            rest = emit.binary(arith.SubfOp, self._number(1), z)
        return emit.fma(z, self._state(step.old, at), emit.binary(arith.MulfOp, rest, n))
