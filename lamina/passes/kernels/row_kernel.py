"""Build kernels that go through rows: elementwise chains, norms, softmax, reductions, writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from lamina.dialects import cache, nn, quant, tile
from lamina.dialects.cache import PagesType
from lamina.dialects.dims import Dim, product
from lamina.dialects.plan import element_bytes
from lamina.dialects.tensors import extents
from lamina.passes.kernels.kernel import Kernel
from lamina.passes.kernels.maps import turns_whole_heads
from lamina.passes.kernels.rows import (
    LINE,
    STATISTICS,
    accumulator,
    chunk_of,
    find_statistic,
    find_statistics,
    over_row,
)
from lamina.passes.kernels.subscripts import Span

WIDEST = 32
"""Elements of a row that are taken at once; part of the arithmetic's order, so one number."""

NEAR = 2560
"""Elements of the rows that a program takes together, unless one row is longer.

What is known of one row is waited for while the next one is read; all stay in the nearest cache.
"""

PART = 2048
"""Elements of a tensor of one dimension that a program takes; a multiple of `WIDEST`."""

MOST_ROWS = 8

LONGEST = 1 << 14
"""Elements of a row that a worker has memory for."""

FAR = 32 << 20
"""Bytes of results from which on no cache is taken to keep them until they are read."""


def domain(kernel: Kernel) -> tuple[Dim, ...]:
    """Return the extents that a row kernel goes through: of what it must know first, or gives."""
    values = [op.operands[0] for op in kernel.ops if type(op) in STATISTICS]
    for value in () if values else kernel.yields:
        owner = value.owner
        if isinstance(owner, cache.WriteOp | quant.QuantizeOp):
            values.append(owner.x)
        else:
            values.append(value)
    return max((extents(value.type) for value in values), key=len)


def build_rows(group: nn.GroupOp, name: str) -> tile.KernelOp:
    """Build a kernel whose programs take a few rows each, chunk by chunk."""
    kernel = Kernel(group, name)
    return _Builder(kernel, domain(kernel)).build()


class _Builder:
    def __init__(self, kernel: Kernel, shape: tuple[Dim, ...]) -> None:
        self.kernel, self.shape, self.lead = kernel, shape, shape[:-1]
        self.emit, self.tiles = kernel.emit, kernel.tiles
        self.known = [op for op in kernel.ops if type(op) in STATISTICS]
        self.count = _rows_at_once(self.known, shape)
        self.own: list[tuple[SSAValue, ...]] = []
        self.kept: dict[Operation, list[SSAValue]] = {}

    def build(self) -> tile.KernelOp:
        """Emit the program and close the kernel."""
        kernel, emit, total = self.kernel, self.emit, product(self.lead)
        if self._is_long():
            return self._parts()
        self._lend_rooms()
        if self.known and self.lead:
            self.tiles.ahead = [x for v, x in self.tiles.memrefs.items() if self._is_domain(v)]
            self.tiles.stride = self.count
        kernel.far = self._is_far()
        program = kernel.program(0)
        if self.count == 1:
            rows = self._rows(program)
            find_statistics(self.tiles, kernel.ops, rows, WIDEST)
            self._finish(rows)
        else:
            first = emit.times(program, self.count)
            left = emit.add(arith.SubiOp(emit.extent(total), first))
            end = emit.add(arith.MinSIOp(left, emit.index(self.count)))
            for op in self.known:
                self.kept[op] = []
                for _ in STATISTICS[type(op)]:
                    self._each(first, end, partial(self._learn, op))
            self._each(first, end, self._use)
        return kernel.finish([total.ceildiv(self.count)], own=self.own)

    def _is_long(self) -> bool:
        """Whether all is one row of elements apart, too many of them for one program."""
        if len(self.shape) != 1 or self.known or self._is_reduced():
            return False
        # A page pool's row and a block of quants are not cut.
        if any(isinstance(op, cache.WriteOp | quant.QuantizeOp) for op in self.kernel.ops):
            return False
        number = self.shape[0].constant
        return number is None or number > PART

    def _parts(self) -> tile.KernelOp:
        """Let each program map a part of the one row."""
        kernel, emit, extent = self.kernel, self.emit, self.shape[0]
        kernel.far = self._is_far()
        first = emit.times(kernel.program(0), PART)
        left = emit.add(arith.SubiOp(emit.extent(extent), first))
        end = emit.add(arith.MinSIOp(left, emit.index(PART)))
        whole = extent.constant is not None and extent.constant % WIDEST == 0

        def body(i: SSAValue) -> None:
            span = Span(emit.add(arith.AddiOp(first, i)), WIDEST, whole)
            self.own.append((span.start,))
            kernel.store((), span)
            self.tiles.ask_ahead((span,), 2 * LINE)

        self.tiles.each(end, body, WIDEST)
        return kernel.finish([extent.ceildiv(PART)], own=self.own)

    def _each(
        self, first: SSAValue, end: SSAValue, body: Callable[[Span, tuple[Span, ...]], None]
    ) -> None:
        """Run `body` on each row of the program: its place among them, and where it is."""

        def one(i: SSAValue) -> None:
            place = Span(i, 1, inside=True)
            self.tiles.place = place
            body(place, self._rows(self.emit.add(arith.AddiOp(first, i))))

        self.tiles.each(end, one)

    def _rows(self, flat: SSAValue) -> tuple[Span, ...]:
        at = self.kernel.unravel(flat, self.lead) if self.lead else []
        self.own.append(tuple(at))
        return tuple(Span(i, 1, inside=True) for i in at)

    def _learn(self, op: Operation, place: Span, rows: tuple[Span, ...]) -> None:
        """Find the next thing that an operation must know of a row, and keep it in memory."""
        self._recall(place)
        kept = self.kept[op]
        found = find_statistic(self.tiles, op, len(kept), rows, WIDEST)
        kept.append(self.emit.scratch(f32, [self.count]))
        self.tiles.store(found, kept[-1], (place,))

    def _use(self, place: Span, rows: tuple[Span, ...]) -> None:
        """Finish a row with what is known of it."""
        self._recall(place)
        self._finish(rows)

    def _recall(self, place: Span) -> None:
        for op, memrefs in self.kept.items():
            found = (self.tiles.load(memref, (place,)) for memref in memrefs)
            self.tiles.statistics[op] = tuple(found)

    def _finish(self, rows: tuple[Span, ...]) -> None:
        """Compute and store a row's results."""
        if self._is_reduced() or not self.shape:
            self.kernel.store(rows, Span(self.emit.index(0), 1, inside=True))
            return
        asked = any(isinstance(op, nn.SoftmaxOp) for op in self.known)

        def body(span: Span, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
            self.kernel.store(rows, span)
            if not asked:
                # Beside stores the hardware fetches the other line of a pair sooner.
                self.tiles.ask_ahead((*rows, span), 2 * LINE)
            return []

        over_row(self.tiles, self.shape[-1], self._chunk(), body)

    def _chunk(self) -> int:
        """How many columns are finished at once: a whole head, where it is rotated as one."""
        ropes = [op for op in self.kernel.ops if isinstance(op, nn.RopeOp)]
        if whole := [op for op in ropes if turns_whole_heads(op)]:
            return extents(whole[0].x.type)[-1].evaluate({})
        return chunk_of(self.shape[-1], WIDEST)

    def _is_reduced(self) -> bool:
        """Whether the results have one element a row."""
        reduces = any(isinstance(op, nn.ReduceOp) for op in self.kernel.ops)
        return reduces and all(len(extents(y.type)) < len(self.shape) for y in self.kernel.yields)

    def _lend_rooms(self) -> None:
        """Give each softmax memory for its powers: of its own, or where its result will be."""
        for op in (op for op in self.known if isinstance(op, nn.SoftmaxOp)):
            width = extents(op.y.type)[-1].constant
            if width is not None and width <= LONGEST:
                self.tiles.rooms[op] = self.emit.scratch(f32, [self.count, width])
            elif op.y in self.kernel.yields and nn.element(op.y) == f32:
                self.tiles.rooms[op] = self.kernel.result(self.kernel.yields.index(op.y))

    def _is_domain(self, value: SSAValue) -> bool:
        return not isinstance(value.type, PagesType) and extents(value.type) == self.shape

    def _is_far(self) -> SSAValue | bool:
        """Whether the results are too large for a cache; they have the rows of the domain.

        Only whole lines are stored past it.
        """
        width = self.shape[-1].constant if self.shape else None
        size, elements = Dim.of(0), product(self.shape)
        for y in self.kernel.outputs:
            if width is None or width % LINE or product(extents(y.type)) != elements:
                return False
            size += elements * element_bytes(nn.element(y))
        if size.constant is not None:
            return size.constant >= FAR
        return self.emit.less(self.emit.index(FAR - 1), self.emit.extent(size))


def _rows_at_once(known: Sequence[Operation], shape: tuple[Dim, ...]) -> int:
    """Return how many rows a program takes."""
    if len(shape) < 2 or shape[-1].constant is None or product(shape[:-1]) == 1:
        return 1
    if any(accumulator(nn.element(op.operands[0])) != f32 for op in known):
        return 1
    return max(1, min(MOST_ROWS, NEAR // max(1, shape[-1].constant)))
