"""Build convolutions as products: rows of windows times columns of output channels.

For each place in the window, and some input channels at once, a program multiplies what its
windows meet there by the weights of that place: an implicit matrix product, without a copy of the
input. Where every channel is a group, channels are multiplied beside each other. Every schedule
does the same arithmetic for an element: places in row order, channels ascending, one chain of
fused multiply-adds (of integers: products and sums).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IntegerType, bf16, f16, f32, f64, i8, i32
from xdsl.ir import Attribute, Operation, SSAValue

from lamina.dialects import nn, tile
from lamina.dialects.dims import Dim
from lamina.dialects.tensors import extents, is_unsigned, signless
from lamina.errors import LoweringError
from lamina.passes.kernels.dot_kernel import COLUMNS, ROWS, STEP
from lamina.passes.kernels.kernel import Kernel
from lamina.passes.kernels.rows import chunk_of
from lamina.passes.kernels.subscripts import Span
from lamina.passes.kernels.windows import Places, Windows

BESIDE = 8
"""Tiles of channels that are each a group, which a program takes: each alone is little work."""

LIGHT = (
    nn.AddOp,
    nn.BroadcastOp,
    nn.CastOp,
    nn.CompareOp,
    nn.ConstantOp,
    nn.MaxOp,
    nn.MinOp,
    nn.MulOp,
    nn.SelectOp,
    nn.SubOp,
    nn.TransposeOp,
)
"""What may follow in registers; what takes more work is done row by row, to be written out once."""


def build_conv(group: nn.GroupOp, name: str) -> tile.KernelOp:
    """Build the kernel of a group whose anchor is one `nn.conv`."""
    kernel = Kernel(group, name)
    return _Builder(kernel, kernel.only(nn.ConvOp)).build()


def multiplied_in(op: nn.ConvOp) -> Attribute:
    """Return the type in which elements are multiplied; floats of 16 bits as they are."""
    kinds = {nn.element(op.x), nn.element(op.w)}
    if not all(isinstance(kind, AnyFloat) for kind in kinds):
        return i8 if _are_bytes(op) else signless(nn.element(op.y))
    if kinds in ({f16}, {bf16}):
        return kinds.pop()
    return f64 if f64 in kinds else f32


def multiplies(op: nn.ConvOp) -> bool:
    """Whether `tile.dot` takes elements of the type that a convolution multiplies in."""
    kind = multiplied_in(op)
    return isinstance(kind, AnyFloat) or kind == i8


def _are_bytes(op: nn.ConvOp) -> bool:
    """Whether a product of bytes sums up in i32, which machines have instructions for."""
    bits = {signless(nn.element(v)) for v in (op.x, op.w)}
    return bits == {i8} and nn.element(op.y) == i32 and not op.depthwise


@dataclass(frozen=True)
class _Cut:
    """How the output channels, `share` of each group, are cut into tiles.

    A tile has `abreast` groups, of each `count` panels of `lanes`; a group has `tiles`.
    """

    groups: int
    share: Dim
    abreast: int
    count: int
    lanes: int
    tiles: Dim

    @property
    def number(self) -> Dim:
        """The number of tiles."""
        return self.tiles * (self.groups // self.abreast)


@dataclass(frozen=True)
class _Part:
    """Neighbouring output channels of one group: where they are among all, and in which panels."""

    group: SSAValue
    panel: SSAValue
    span: Span


@dataclass(frozen=True)
class _Columns:
    """The output channels of a program: for each of its groups, `count` panels of `lanes`.

    `lead` are the groups where the result has a dimension of them, `span` the channels in its last
    dimension. A weight that is not packed has one panel of all columns.
    """

    count: int
    lanes: int
    parts: tuple[_Part, ...]
    lead: tuple[Span, ...]
    span: Span


class _Builder:
    def __init__(self, kernel: Kernel, op: nn.ConvOp) -> None:
        self.kernel, self.op = kernel, op
        self.emit, self.tiles = kernel.emit, kernel.tiles
        if len(extents(op.y.type)) != 2 and not op.parted:
            raise LoweringError("a convolution kernel gives rows of channels")
        self.turned = op.parted and any(isinstance(each, nn.TransposeOp) for each in kernel.ops)
        schedule = kernel.group.schedule
        self.threads = schedule.get("threads", 1) if schedule else 1
        self.step = schedule.get("k", STEP) if schedule else STEP
        self.most = schedule.get("n", COLUMNS) if schedule else COLUMNS
        self.groups = op.groups.value.data
        self.kind = multiplied_in(op)
        self.sums = f32 if self.kind in (f16, bf16) else self.kind
        self.sums = i32 if self.kind == i8 else self.sums
        rows = schedule.get("m", ROWS) if schedule else ROWS
        self.windows = Windows(kernel, op, rows)
        self.cut = self._cut()

    def build(self) -> tile.KernelOp:
        """Emit the program and close the kernel."""
        number, tiles = self.kernel.program(2), self.cut.number
        apart = self.threads > 1 or tiles == 1 or not follows_in_registers(self.kernel, self.op)
        if apart or not self.op.depthwise:
            self._tile(number)
            return self.kernel.finish([*self.windows.grid, tiles])
        self._one_after_another(number, tiles)
        return self.kernel.finish([*self.windows.grid, tiles.ceildiv(BESIDE)])

    def _one_after_another(self, number: SSAValue, tiles: Dim) -> None:
        """Go through some tiles of channels, whose windows are the same."""
        emit = self.emit
        first = emit.times(number, BESIDE)
        left = emit.add(arith.SubiOp(emit.extent(tiles), first))
        end = emit.add(arith.MinSIOp(left, emit.index(BESIDE)))
        self.tiles.each(end, lambda i: self._tile(emit.add(arith.AddiOp(first, i))))

    def _tile(self, number: SSAValue) -> None:
        """Compute and store a tile of windows and of channels."""
        self.columns = self._columns(number)
        emit, width = self.emit, self.columns.span.size
        shape = [self.windows.rows, self.columns.count, self.columns.lanes]
        if self.op.packed is None or self.op.depthwise or not multiplies(self.op):
            shape = [shape[0], width]
        starts = [emit.full(0, self.sums, shape)] * len(self.columns.parts)

        def sums(*, inside: bool) -> list[SSAValue]:
            return self.windows.over(starts, lambda at, acc: self._place(at, acc, inside=inside))

        def border() -> list[SSAValue]:
            # With what takes work behind it, the kernel would be long: there is little of this.
            # Rows so far apart as an argument says take registers for their addresses.
            whole = follows_in_registers(self.kernel, self.op) and not self.turned
            whole = whole and self.op.depth.constant is not None
            self.step = self.step if whole else max(1, self.step // 2)
            return sums(inside=False)

        inside: SSAValue | bool = False if self.threads > 1 else self.windows.inside()
        if isinstance(inside, bool):
            totals = sums(inside=inside)
        else:
            totals = self.tiles.choose(inside, lambda: sums(inside=True), border)
        ones = [1] * len(self.columns.lead)
        totals = [emit.reshape(total, [shape[0], *ones, width]) for total in totals]
        self._finish(totals[0] if len(totals) == 1 else emit.add(tile.JoinOp(totals, 1)))

    def _cut(self) -> _Cut:
        op = self.op
        groups = 1 if op.depthwise else self.groups
        share = op.outputs if groups == 1 else op.outputs // groups
        if op.packed is None:
            lanes = chunk_of(share, self.most)
            return _Cut(groups, share, 1, 1, lanes, share.ceildiv(lanes))
        panels, lanes = extents(op.w.type)[0] // groups, lanes_of(op)
        # What turns groups and their channels has a tile of all groups.
        abreast = groups if self.turned and self.threads == 1 else 1
        count = panels_abreast(panels, max(1, self.most // lanes // abreast), self.threads)
        return _Cut(groups, share, abreast, count, lanes, panels // count)

    def _columns(self, number: SSAValue) -> _Columns:
        """Return the channels of the tile of a number."""
        op, emit, cut = self.op, self.emit, self.cut
        groups, count, width = cut.groups, cut.count, cut.count * cut.lanes
        first, within = emit.index(0), number
        if groups > cut.abreast:
            first = emit.add(arith.DivUIOp(within, emit.extent(cut.tiles)))
            within = emit.add(arith.RemUIOp(within, emit.extent(cut.tiles)))
            first = emit.times(first, cut.abreast)
        start = emit.times(within, width)
        whole = cut.share % width == 0
        parts: list[_Part] = []
        for n in range(cut.abreast):
            group = emit.plus(first, n) if n else first
            panel = emit.times(within, count)
            if groups > 1:
                before = emit.add(arith.MuliOp(group, emit.extent(cut.tiles * count)))
                panel = emit.add(arith.AddiOp(before, panel))
            parts.append(_Part(group, panel, self._span(group, start, width, whole=whole)))
        if not op.parted:
            return _Columns(count, cut.lanes, tuple(parts), (), parts[0].span)
        lead = Span(first, cut.abreast, inside=True)
        return _Columns(count, cut.lanes, tuple(parts), (lead,), Span(start, width, whole))

    def _span(self, group: SSAValue, start: SSAValue, width: int, *, whole: bool) -> Span:
        """Return where channels from `start` on of a group are among those of all groups."""
        emit, groups = self.emit, self.groups
        if self.op.depthwise or groups == 1:
            return Span(start, width, whole)
        share = emit.extent(self.op.outputs // groups)
        base = emit.add(arith.MuliOp(group, share))
        limit = None if whole else emit.add(arith.AddiOp(base, share))
        return Span(emit.add(arith.AddiOp(base, start)), width, whole, limit)

    def _place(self, places: Places, sums: Sequence[SSAValue], *, inside: bool) -> list[SSAValue]:
        """Take in what all input channels have at a place of the window."""
        at = self.windows.at(places)
        if self.op.depthwise:
            return [self._beside(at, places, sums[0], inside=inside)]
        multiply = self._product if multiplies(self.op) else self._outer

        def one(k: Span, part: _Part, acc: SSAValue) -> SSAValue:
            x = self._inputs(at, k, part, inside=inside)
            return multiply(x, self._weights(places, k, part), acc)

        def some(k: Span, sums: Sequence[SSAValue]) -> list[SSAValue]:
            pairs = zip(self.columns.parts, sums, strict=True)
            return [one(k, part, acc) for part, acc in pairs]

        return self._channels(sums, some)

    def _channels(
        self,
        sums: Sequence[SSAValue],
        some: Callable[[Span, Sequence[SSAValue]], list[SSAValue]],
    ) -> list[SSAValue]:
        """Go through the input channels of a group, a few at a time, then what is left of them."""
        emit, depth = self.emit, self.op.depth
        size = depth.constant
        step = self.step if multiplies(self.op) else 1
        if size is not None:
            step = max(1, min(step, size))

        def over(
            low: SSAValue, high: SSAValue, step: int, sums: Sequence[SSAValue]
        ) -> list[SSAValue]:
            def one(k: SSAValue, *sums: SSAValue) -> Sequence[SSAValue]:
                return some(Span(k, step, inside=True), sums)

            return self.tiles.loop(low, high, emit.index(step), sums, one)

        zero = emit.index(0)
        if size is None and depth % step == 0:
            return over(zero, emit.extent(depth), step, sums)
        if size is None:
            most = emit.extent(depth - depth % step)
            return over(most, emit.extent(depth), 1, over(zero, most, step, sums))
        whole = size - size % step
        if whole == step:
            sums = some(Span(zero, step, inside=True), sums)
        elif whole:
            sums = over(zero, emit.index(whole), step, sums)
        if size > whole:
            sums = some(Span(emit.index(whole), size - whole, inside=True), sums)
        return list(sums)

    def _inputs(self, at: Sequence[SSAValue], k: Span, part: _Part, *, inside: bool) -> SSAValue:
        """Return what the windows meet in some channels of a group: [rows, k]."""
        start = k.start
        if self.groups > 1:
            base = self.emit.add(arith.MuliOp(part.group, self.emit.extent(self.op.depth)))
            start = self.emit.add(arith.AddiOp(base, start))
        return self.windows.load(at, Span(start, k.size, inside=True), inside=inside)

    def _weights(self, places: Places, k: Span, part: _Part) -> SSAValue:
        """Return the weights of a place: [panels, k, lanes], or [columns, k] if not packed."""
        emit, columns = self.emit, self.columns
        window = [Span(i, 1, inside=True) for i in places]
        if self.op.packed is None:
            w = self.tiles.tile_of(self.op.w, (part.span, *window, k))
            return emit.reshape(w, [part.span.size, k.size])
        panels = Span(part.panel, columns.count, inside=True)
        lanes = Span(emit.index(0), columns.lanes, inside=True)
        w = self.tiles.tile_of(self.op.w, (panels, *window, k, lanes))
        return emit.reshape(w, [columns.count, k.size, columns.lanes])

    def _product(self, x: SSAValue, w: SSAValue, acc: SSAValue) -> SSAValue:
        """acc + x w over some input channels."""
        a, b = self.emit.cast(x, self.kind), self.emit.cast(w, self.kind)
        signs = [int(is_unsigned(nn.element(v))) for v in (self.op.x, self.op.w)]
        unsigned = signs if self.kind == i8 else ()
        return self.emit.add(tile.DotOp(a, b, acc, [(1, 1)], unsigned=unsigned))

    def _outer(self, x: SSAValue, w: SSAValue, acc: SSAValue) -> SSAValue:
        """acc + x w of one input channel, whose products `tile.dot` does not sum."""
        return self._add(acc, self.emit.reshape(x, [self.windows.rows]), w, [0])

    def _beside(
        self, at: Sequence[SSAValue], places: Places, acc: SSAValue, *, inside: bool
    ) -> SSAValue:
        """acc + x w of channels that are groups."""
        (part,) = self.columns.parts
        x = self.windows.load(at, part.span, inside=inside)
        w = self._weights(places, Span(self.emit.index(0), 1, inside=True), part)
        return self._add(acc, x, w, [0, 1])

    def _add(self, acc: SSAValue, x: SSAValue, w: SSAValue, dims: Sequence[int]) -> SSAValue:
        emit, shape = self.emit, tile.shape_of(acc.type)
        x, w = self._summed(x, self.op.x), self._summed(w, self.op.w)
        x = emit.broadcast(x, dims, shape)
        w = emit.broadcast(emit.reshape(w, [shape[1]]), [1], shape)
        if isinstance(self.sums, IntegerType):
            return emit.binary(arith.AddiOp, acc, emit.binary(arith.MuliOp, x, w))
        return emit.fma(x, w, acc)

    def _summed(self, x: SSAValue, source: SSAValue) -> SSAValue:
        unsigned = is_unsigned(nn.element(source))
        return self.emit.cast(x, self.sums, unsigned=unsigned)

    def _finish(self, total: SSAValue) -> None:
        """Compute what follows, and store it."""
        op, columns, windows = self.op, self.columns, self.windows
        if self.threads > 1 or follows_in_registers(self.kernel, op):
            self.tiles.fix(op.y, self._result(total))
            self._store(windows.span)
            return
        emit = self.emit
        kept = emit.scratch(self.sums, tile.shape_of(total.type))
        zero = emit.index(0)
        sizes = [span.size for span in (*columns.lead, columns.span)]
        rest = [Span(zero, size, inside=True) for size in sizes]
        self.tiles.store(total, kept, (Span(zero, windows.rows, inside=True), *rest))

        def row(i: SSAValue) -> None:
            one = self.tiles.load(kept, (Span(i, 1, inside=True), *rest))
            self.tiles.fix(op.y, self._result(one))
            start = emit.add(arith.AddiOp(windows.span.start, i))
            self._store(Span(start, 1, inside=True))

        self.tiles.each(windows.existing(), row)

    def _store(self, rows: Span) -> None:
        """Store the results of some rows; those that are turned have groups last."""
        columns = (*self.columns.lead, self.columns.span)
        if not self.op.parted:
            self.kernel.store([rows], self.columns.span)
            return
        turned = set[SSAValue]()
        for op in self.kernel.ops:
            if any(v in turned for v in op.operands) != isinstance(op, nn.TransposeOp):
                turned |= set(op.results)
        self.kernel.store_at(lambda y: (rows, *(columns[::-1] if y in turned else columns)))

    def _result(self, total: SSAValue) -> SSAValue:
        return self.emit.cast(total, signless(nn.element(self.op.y)))


def follows_in_registers(kernel: Kernel, op: Operation) -> bool:
    """Whether all that follows a group's convolution is done in registers."""
    return all(isinstance(each, LIGHT) for each in kernel.ops if each is not op)


def lanes_of(op: nn.ConvOp) -> int:
    """Return how many output channels a panel has."""
    return extents(op.w.type)[-1].evaluate({})


def panels_abreast(panels: Dim, most: int, threads: int = 1) -> int:
    """Return how many panels of a group it takes: a divisor; of threads, a power of two."""
    fitting = (n for n in range(1, most + 1) if panels % n == 0)
    return max(n for n in fitting if threads == 1 or n & (n - 1) == 0)
