"""Build scatters: a copy, then the updates one after another, so that duplicates have an order.

A program has a part of the result for itself: of the dimensions that updates go along as they
are, a place in each, and a chunk of the last one. It takes all updates of that part in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, IntegerType
from xdsl.ir import SSAValue

from lamina.dialects import nn, tile
from lamina.dialects.dims import Dim, product
from lamina.dialects.tensors import extents
from lamina.errors import LoweringError
from lamina.passes.kernels.kernel import Kernel
from lamina.passes.kernels.lookups import outside, together
from lamina.passes.kernels.maps import indices_of
from lamina.passes.kernels.row_kernel import WIDEST
from lamina.passes.kernels.rows import COMBINE, chunk_of, over_row
from lamina.passes.kernels.shared_checks import sources_of
from lamina.passes.kernels.signs import on
from lamina.passes.kernels.subscripts import Index, Rows, Span, Subscript, sizes
from lamina.passes.kernels.tiles import found_rows

Own = Mapping[int, Span]
"""Where the program is in the dimensions of the result that it has a part of."""


def build_scatter(group: nn.GroupOp, name: str) -> tile.KernelOp:
    """Build the kernel of a group that is one `nn.scatter_nd` or `nn.scatter_elements`."""
    kernel = Kernel(group, name)
    kinds = (nn.ScatterNdOp, nn.ScatterElementsOp)
    found = [op for op in kernel.ops if isinstance(op, kinds)]
    if len(found) != 1 or not extents(found[0].x.type):
        raise LoweringError("a scatter kernel holds one scatter into a tensor with dimensions")
    (op,) = found
    return (_Nd if isinstance(op, nn.ScatterNdOp) else _Elements)(kernel, op).build()


class _Builder:
    def __init__(self, kernel: Kernel, op: nn.ScatterNdOp | nn.ScatterElementsOp) -> None:
        self.kernel, self.op = kernel, op
        self.emit, self.tiles = kernel.emit, kernel.tiles
        self.shape, self.y = extents(op.x.type), kernel.result(0)
        self.last = len(self.shape) - 1
        self.width = chunk_of(self.shape[-1], WIDEST)

    def build(self) -> tile.KernelOp:
        """Emit the copy and the loop over updates, and close the kernel."""
        kernel, emit, along = self.kernel, self.emit, self.along()
        outer = [d for d in along if d != self.last]
        at = kernel.unravel(kernel.program(1), [self.shape[d] for d in outer]) if outer else []
        own = {d: Span(i, 1, inside=True) for d, i in zip(outer, at, strict=True)}
        chunks = Dim.of(1)
        if self.last in along:
            start = emit.times(kernel.program(0), self.width)
            own[self.last] = Span(start, self.width)
            chunks = self.shape[-1].ceildiv(self.width)
        self._copy(own)
        self.update(own)
        return kernel.finish([chunks, product(tuple(self.shape[d] for d in outer))])

    def along(self) -> list[int]:
        """Return the dimensions in which an update stays where it is."""
        raise NotImplementedError

    def update(self, own: Own) -> None:
        """Emit the updates of the program's part, one after another."""
        raise NotImplementedError

    def _copy(self, own: Own) -> None:
        """Emit the copy of the program's part."""
        free = [d for d in range(self.last) if d not in own]

        def one(number: SSAValue) -> None:
            at = self.kernel.unravel(number, [self.shape[d] for d in free])
            index = {**own, **{d: Span(i, 1, inside=True) for d, i in zip(free, at, strict=False)}}

            def part(span: Span, _: Sequence[SSAValue]) -> Sequence[SSAValue]:
                where = tuple({**index, self.last: span}[d] for d in range(self.last + 1))
                self.tiles.store(self.tiles.tile_of(self.op.x, where), self.y, where)
                return []

            if self.last in own:
                part(own[self.last], [])
            else:
                over_row(self.tiles, self.shape[-1], self.width, part)

        self.each(product(tuple(self.shape[d] for d in free)), one)

    def each(self, count: Dim, body: Callable[[SSAValue], None]) -> None:
        """Run `body` on the numbers below `count`, in order."""
        self.tiles.each(self.emit.extent(count), body)

    def put(self, update: Index, where: Index) -> None:
        """Emit what an update at an index of `updates` does to the result at `where`."""
        emit, kind = self.emit, self.op.kind.data
        element = nn.element(self.op.x)
        new = emit.reshape(self.tiles.tile_of(self.op.updates, update), sizes(where))
        if kind != "set":
            integer = isinstance(element, IntegerType)
            old = self.tiles.load(self.y, where)
            new = emit.binary(on(COMBINE[kind][integer], element), old, new)
        self.tiles.store(new, self.y, where)


class _Nd(_Builder):
    """Updates go along the dimensions of the result that no list of places has a place in."""

    def along(self) -> list[int]:
        return list(range(self.depth, len(self.shape)))

    @property
    def depth(self) -> int:
        """In how many dimensions a list has a place."""
        return extents(self.op.indices.type)[-1].evaluate({})

    def update(self, own: Own) -> None:
        emit, lists = self.emit, extents(self.op.indices.type)[:-1]
        window = [own[d] for d in range(self.depth, len(self.shape))]

        def one(number: SSAValue) -> None:
            at = self.kernel.unravel(number, lists) if lists else []
            which = [Span(i, 1, inside=True) for i in at]
            where: list[Subscript] = []
            for d in range(self.depth):
                place = Span(emit.index(d), 1, inside=True)
                ids = emit.reshape(self.tiles.tile_of(self.op.indices, (*which, place)), [1])
                where.append(found_rows(self.tiles, ids, self.shape[d], sources_of(self.op)))
            self.put((*which, *window), (*where, *window))

        self.each(product(lists), one)


class _Elements(_Builder):
    """Updates go along every dimension but `axis`."""

    def along(self) -> list[int]:
        return [d for d in range(len(self.shape)) if d != self.axis]

    @property
    def axis(self) -> int:
        """The dimension in which updates find their place."""
        assert isinstance(self.op, nn.ScatterElementsOp)
        return self.op.axis.value.data

    def update(self, own: Own) -> None:
        emit, given = self.emit, extents(self.op.indices.type)
        beside = emit.index(1)
        for d, span in own.items():
            if d != self.last and given[d] != self.shape[d]:
                below = emit.cast(emit.less(span.start, emit.extent(given[d])), IndexType())
                beside = emit.add(arith.MuliOp(beside, below))
        # Indices may have fewer places than the result; what is beyond them takes no update.
        count = emit.add(arith.MuliOp(emit.extent(given[self.axis]), beside))
        self.tiles.each(count, lambda number: self._one(own, number))

    def _one(self, own: Own, number: SSAValue) -> None:
        given = extents(self.op.indices.type)
        which: list[Subscript] = [
            Span(number, 1, inside=True) if d == self.axis else own[d]
            for d in range(len(self.shape))
        ]
        size = which[-1].size
        ids = self.emit.reshape(self.tiles.tile_of(self.op.indices, tuple(which)), [size])
        where = [*which]
        if self.last in own and given[-1] != self.shape[-1]:
            where[-1] = self._within(own[self.last], given[-1])
        where[self.axis] = found_rows(self.tiles, ids, self.shape[self.axis], sources_of(self.op))
        self.put(tuple(which), together(self.tiles, where, size))

    def _within(self, span: Span, given: Dim) -> Subscript:
        """Return a chunk of the result whose places beyond `given` are outside."""
        emit, shape = self.emit, [span.size]
        places = indices_of(self.tiles, span)
        inside = tile.CompareOp("lt", places, emit.add(tile.SplatOp(emit.extent(given), shape)))
        beyond = emit.add(tile.SplatOp(emit.extent(self.shape[-1]), shape))
        chosen = emit.add(tile.SelectOp(emit.add(inside), places, beyond))
        return outside(Rows(chosen, span.size))
