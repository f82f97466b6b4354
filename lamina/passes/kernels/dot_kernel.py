"""Build products of any two tensors: batches, free dimensions and one contracted pair.

The last dimension of the result is in lanes, the left operand's last free dimension in rows; the
contracted dimension goes up in chunks, one chain of fused multiply-adds for each element. A right
operand whose rows are contracted is turned round in memory of the program, for several tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import bf16, f16, f32, i8, i32
from xdsl.ir import Attribute, Operation, SSAValue

from lamina.dialects import nn, tile
from lamina.dialects.dims import Dim, product
from lamina.dialects.tensors import extents, is_unsigned, signless
from lamina.dialects.traits import Elementwise
from lamina.errors import LoweringError
from lamina.passes.kernels.kernel import Kernel
from lamina.passes.kernels.register_tile import MOST_REGISTERS, TileDoesNotFit
from lamina.passes.kernels.rows import chunk_of
from lamina.passes.kernels.subscripts import Span, Subscript

ROWS = 4
COLUMNS = 64
"""Rows and columns of the result in a tile, unless the schedule says otherwise."""

LANES = 16
"""Sums in a register of a core; a thread of a GPU has one in each."""

STEP = 4
"""Columns of K that are taken at once: their elements of the rows are broadcast from memory, which
with more of them would be done long before they are multiplied."""

SQUARE = 16
"""Columns of K that are turned round at once: as many as a register of 512 bits has lanes."""

TURNED = 4096
"""Elements that a program turns round at most: what is read again and again stays in the first
cache level."""

WIDE = 256
"""Columns from which a tile is finished in parts of its columns."""

BYTES_AT_ONCE = 32
"""Bytes of K that a matrix unit multiplies at once."""

TILES = 16
"""Tiles of rows that share what was turned round."""

Right = Callable[[Mapping[int, Span], Span], tuple[SSAValue, int]]
"""Gives some columns of K of the right operand for a tile, and which dimension K is there."""


def most_sums(threads: int) -> int:
    """Return how many elements a tile may have, each a sum in a register of a core or thread."""
    return MOST_REGISTERS * max(LANES, threads)


@dataclass(frozen=True)
class Roles:
    """Which dimension of the result each free and batch dimension of an operand is."""

    contract: tuple[int, int]
    left: dict[int, int]
    right: dict[int, int]

    @staticmethod
    def of(op: nn.DotGeneralOp) -> Roles:
        """Return the roles in a product; LoweringError unless one pair is contracted."""
        pairs, batch = tile.pairs(op.contract), tile.pairs(op.batch)
        if len(pairs) != 1:
            raise LoweringError("a product kernel contracts one pair of dimensions")
        (contract,) = pairs
        left = {a: i for i, (a, _) in enumerate(batch)}
        right = {b: i for i, (_, b) in enumerate(batch)}
        at = len(batch)
        for d in range(len(extents(op.a.type))):
            if d != contract[0] and d not in left:
                left[d], at = at, at + 1
        for d in range(len(extents(op.b.type))):
            if d != contract[1] and d not in right:
                right[d], at = at, at + 1
        return Roles(contract, left, right)


def has_tiles(op: nn.DotGeneralOp) -> bool:
    """Whether a product is of one pair of floats, and its last dimension the right operand's."""
    free = len(extents(op.b.type)) - len(tile.pairs(op.batch)) - len(tile.pairs(op.contract))
    return len(tile.pairs(op.contract)) == 1 and free > 0 and nn.element(op.y) in (f32, f16, bf16)


def is_byte_product(ops: Sequence[Operation]) -> bool:
    """Whether a group is a product of bytes that matrix units take, and what follows by element.

    Both operands have what is summed over side by side, as many as a unit takes of each.
    """
    (op,) = (op for op in ops if isinstance(op, nn.DotGeneralOp))
    pairs, shapes = tile.pairs(op.contract), [extents(x.type) for x in (op.a, op.b)]
    if multiplied_in(op) != i8 or pairs != ((len(shapes[0]) - 1, len(shapes[1]) - 1),):
        return False
    depth, free = shapes[0][-1].constant, len(shapes[1]) - len(tile.pairs(op.batch)) - 1
    alone = all(other is op or other.has_trait(Elementwise) for other in ops)
    return alone and free > 0 and bool(depth) and depth % BYTES_AT_ONCE == 0


def multiplied_in(op: nn.DotGeneralOp) -> Attribute:
    """Return the type in which elements are multiplied.

    It is f16 or bf16 if both sides are, i8 if both are bytes and sums i32, else f32. Sums of floats
    are f32.
    """
    kinds = {nn.element(op.a), nn.element(op.b)}
    if nn.element(op.y) == i32 and all(_is_byte(kind) for kind in kinds):
        return i8
    return kinds.pop() if kinds in ({f16}, {bf16}) else f32


def _is_byte(kind: Attribute) -> bool:
    return signless(kind) == i8


def build_dot(group: nn.GroupOp, name: str) -> tile.KernelOp:
    """Build the kernel of a group whose anchor is one `nn.dot_general`."""
    kernel = Kernel(group, name)
    return _Builder(kernel, kernel.only(nn.DotGeneralOp)).build()


class _Builder:
    def __init__(self, kernel: Kernel, op: nn.DotGeneralOp) -> None:
        self.kernel, self.op = kernel, op
        self.tiles, self.emit = kernel.tiles, kernel.emit
        self.roles = Roles.of(op)
        self.depth = extents(op.a.type)[self.roles.contract[0]]
        self.shape = extents(op.y.type)
        schedule = kernel.group.schedule
        rank, batches = len(self.shape), len(tile.pairs(op.batch))
        free_right = [i for i in self.roles.right.values() if i >= batches]
        free_left = [i for i in self.roles.left.values() if i >= batches]
        self.kind = multiplied_in(op)
        self.sums = i32 if self.kind == i8 else f32
        tiled = has_tiles(op) or self.kind == i8
        if not tiled or max(free_right) != rank - 1:
            raise LoweringError("a product kernel has float results and a free right dimension")
        asked_rows = schedule.get("m", ROWS) if schedule else ROWS
        asked_columns = schedule.get("n", COLUMNS) if schedule else COLUMNS
        self.step = schedule.get("k", STEP) if schedule else STEP
        if min(asked_rows, asked_columns, self.step) < 1:
            raise self._refusal(asked_rows, asked_columns, "sizes start at 1")
        self.columns = chunk_of(self.shape[-1], asked_columns)
        self.row_dim = max(free_left) if free_left else None
        self.rows = 1
        if self.row_dim is not None:
            self.rows = chunk_of(self.shape[self.row_dim], asked_rows)
        # Threads that share a tile have no lanes to fill.
        shared = schedule is not None and schedule.get("threads", 1) > 1
        self.square = self.step if shared else max(SQUARE, self.step)
        self.copied = schedule is not None and "stages" in schedule.values.data
        ends = (nn.DotGeneralOp, nn.CastOp, nn.YieldOp)
        follows = any(not isinstance(each, ends) for each in kernel.group.body.block.ops)
        self.parts = schedule.get("parts", 1) if schedule and follows else 1
        self.band = schedule.get("b", 0) // self.columns if schedule else 0
        most = most_sums(schedule.get("threads", 1) if schedule else 1)
        if self.rows * self.columns > most:
            room = f"at most {most} sums fit into registers"
            raise self._refusal(self.rows, self.columns, room)

    def _refusal(self, rows: int, columns: int, why: str) -> TileDoesNotFit:
        name = self.kernel.group.sym_name.data
        return TileDoesNotFit(f"group {name} asks for a tile of m={rows} n={columns}: {why}")

    def build(self) -> tile.KernelOp:
        """Emit the program and close the kernel."""
        last = len(self.shape) - 1
        lead = [d for d in range(last) if d != self.row_dim]
        outer = tuple(self.shape[d] for d in lead)
        at = self.kernel.unravel(self.kernel.program(2), outer) if lead else []
        index: dict[int, Span] = {d: Span(i, 1, inside=True) for d, i in zip(lead, at, strict=True)}
        columns, row = self._order()
        index[last] = self._span(columns, self.columns, self.shape[last])
        rows = Dim.of(1)
        if self.row_dim is None:
            self._tile(index)
        elif self._turns():
            rows = self.shape[self.row_dim].ceildiv(self.rows * TILES)
            self._tiles(index, self.row_dim)
        else:
            extent = self.shape[self.row_dim]
            rows = extent.ceildiv(self.rows)
            self._tile({**index, self.row_dim: self._span(row(), self.rows, extent)})
        return self.kernel.finish([self.shape[last].ceildiv(self.columns), rows, product(outer)])

    def _turns(self) -> bool:
        """Whether the right operand's rows are contracted, and few enough to be turned round."""
        depth = self.depth.constant
        return self._across() and depth is not None and depth * self.columns <= TURNED

    def _across(self) -> bool:
        """Whether columns of K lie in lanes of the right operand's memory."""
        return self.roles.contract[1] == len(extents(self.op.b.type)) - 1

    def _tiles(self, index: dict[int, Span], row_dim: int) -> None:
        """Emit some tiles of rows, for which the right operand is turned round once."""
        emit, extent, size = self.emit, self.shape[row_dim], self.rows * TILES
        turned = self._turned(index)
        columns = Span(emit.index(0), self.columns, inside=True)

        def right(_: object, k: Span) -> tuple[SSAValue, int]:
            return self.tiles.load(turned, (k, columns)), 0

        whole = extent.constant is not None and extent.constant % self.rows == 0

        def rows(first: SSAValue) -> Sequence[SSAValue]:
            self._tile({**index, row_dim: Span(first, self.rows, inside=whole)}, right)
            return []

        begin = emit.times(self.kernel.program(1), size)
        end = emit.add(arith.MinSIOp(emit.plus(begin, size), emit.extent(extent)))
        self.tiles.loop(begin, end, emit.index(self.rows), [], rows)

    def _turned(self, index: dict[int, Span]) -> SSAValue:
        """Return memory `[K, columns]` with the program's columns of the right operand."""
        emit, last = self.emit, len(self.shape) - 1
        chunk, piece = chunk_of(self.depth, SQUARE), min(self.columns, SQUARE)
        depth = self.depth.evaluate({})
        turned = emit.scratch(self.kind, [-(-depth // chunk) * chunk, self.columns])
        columns = index[last]

        def turn(k: SSAValue) -> None:
            for at in range(0, self.columns, piece):
                some = Span(emit.plus(columns.start, at), piece, columns.inside)
                b, k_dim = self._right({**index, last: some}, self._chunk(k, chunk))
                b = emit.add(tile.TransposeOp(b, [1, 0])) if k_dim else b
                to = Span(emit.index(at), piece, inside=True)
                self.tiles.store(b, turned, (Span(k, chunk, inside=True), to))

        self.tiles.each(depth, turn, chunk)
        return turned

    def _tile(self, index: dict[int, Span], right: Right | None = None) -> None:
        """Emit one tile of the result."""
        where = tuple(index[d] for d in range(len(self.shape)))
        total = self._accumulate(index, right)
        for start, sizes in self._pieces():
            piece = total if not start else self.emit.add(tile.SliceOp(total, start, sizes))
            self.tiles.fix(self.op.y, self.emit.cast(piece, nn.element(self.op.y)))
            here = where if not start else self._at(where, start, sizes)
            self.kernel.store(here[:-1], here[-1])

    def _pieces(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Return where each part begins in which a tile is finished, and its sizes.

        A wide tile is cut into columns, another one into rows. Of one part nothing is said.
        """
        rows, columns, parts = self.rows, self.columns, self.parts
        if parts > 1 and columns >= WIDE and columns % parts == 0:
            size = columns // parts
            return [((0, n * size), (rows, size)) for n in range(parts)]
        if parts > 1 and self.row_dim is not None and rows % parts == 0:
            size = rows // parts
            return [((n * size, 0), (size, columns)) for n in range(parts)]
        return [((), ())]

    def _at(
        self, where: Sequence[Span], start: Sequence[int], sizes: Sequence[int]
    ) -> tuple[Span, ...]:
        """Return where a part of a tile is."""
        moved = list(where)
        for dim, begin, size in zip((self.row_dim, -1), start, sizes, strict=True):
            if dim is not None:
                first = self.emit.plus(where[dim].start, begin)
                moved[dim] = Span(first, size, where[dim].inside)
        return tuple(moved)

    def _order(self) -> tuple[SSAValue, Callable[[], SSAValue]]:
        """Return which tile of columns this program has, and what gives its tile of rows.

        Programs go through a band of columns for all rows before they come to the next one.
        """
        kernel, emit, band = self.kernel, self.emit, self.band
        tiles = self.shape[-1].ceildiv(self.columns).constant
        if not tiles or not band or tiles % band or self.row_dim is None or self._turns():
            return kernel.program(0), lambda: kernel.program(1)
        rows = self.shape[self.row_dim].ceildiv(self.rows)
        before = emit.times(kernel.program(1), tiles)
        number = emit.binary(arith.AddiOp, before, kernel.program(0))
        sizes = (Dim.of(tiles // band), rows, Dim.of(band))
        first, row, column = kernel.unravel(number, sizes)
        return emit.binary(arith.AddiOp, emit.times(first, band), column), lambda: row

    def _span(self, number: SSAValue, size: int, extent: Dim) -> Span:
        whole = extent.constant is not None and extent.constant % size == 0
        return Span(self.emit.times(number, size), size, inside=whole)

    def _accumulate(self, index: dict[int, Span], right: Right | None) -> SSAValue:
        """Return a tile of products: a chain of multiply-adds for each element.

        Columns of K are taken a few at a time, and what is left of them one by one; those that lie
        in lanes of both operands, as many as there are lanes.
        """
        emit, op, roles = self.emit, self.op, self.roles
        left = self._left_index(index)
        start = emit.full(0, self.sums, (self.rows, self.columns))
        kinds = [nn.element(x) for x in (op.a, op.b) if self.kind == i8]
        unsigned = tuple(int(is_unsigned(kind)) for kind in kinds)

        def over(low: SSAValue, high: SSAValue, step: int, acc: SSAValue, inside: bool) -> SSAValue:
            def some(k: SSAValue, acc: SSAValue) -> Sequence[SSAValue]:
                span = Span(k, step, inside=True) if inside else self._chunk(k, step)
                a = self._operand(op.a, roles.contract[0], roles.left, left, span)
                b = (right or self._right)(index, span)
                pairs = [(a[1], b[1])]
                return [emit.add(tile.DotOp(a[0], b[0], acc, pairs, unsigned=unsigned))]

            return self.tiles.loop(low, high, emit.index(step), [acc], some)[0]

        zero, end = emit.index(0), emit.extent(self.depth)
        if right is None and self._across():
            return over(zero, end, chunk_of(self.depth, self.square), start, False)
        if self.depth % self.step == Dim.of(0):
            return over(zero, end, self.step, start, True)
        most = emit.extent(self.depth - self.depth % self.step)
        return over(most, end, 1, over(zero, most, self.step, start, True), True)

    def _left_index(self, index: dict[int, Span]) -> dict[int, Subscript]:
        """Return where the left operand's rows are: rows that do not exist are the last one.

        Where rounds of rows are copied ahead, those that do not exist come as zeros.
        """
        row_dim = self.row_dim
        if row_dim is None or self.roles.contract[0] != len(extents(self.op.a.type)) - 1:
            return {**index}
        rows = index[row_dim]
        if rows.inside or self.copied:
            return {**index}
        end = self.emit.extent(self.shape[row_dim])
        return {**index, row_dim: self.tiles.clamped_rows(rows.start, rows.size, end)}

    def _chunk(self, k: SSAValue, step: int) -> Span:
        """Return `step` columns of K from `k` on, of which not all may exist."""
        whole = self.depth.constant is not None and self.depth.constant % step == 0
        return Span(k, step, inside=whole)

    def _right(self, index: Mapping[int, Span], span: Span) -> tuple[SSAValue, int]:
        return self._operand(self.op.b, self.roles.contract[1], self.roles.right, index, span)

    def _operand(
        self,
        value: SSAValue,
        contracted: int,
        roles: dict[int, int],
        index: Mapping[int, Subscript],
        span: Span,
    ) -> tuple[SSAValue, int]:
        """Return an operand's tile `[n, k]` or `[k, n]`, as it lies, and where k is."""
        rank = len(extents(value.type))
        where = tuple(span if d == contracted else index[roles[d]] for d in range(rank))
        free = [d for d in range(rank) if d != contracted and where[d].size > 1]
        if len(free) > 1:
            raise LoweringError("an operand of a product kernel has one wide free dimension")
        count = where[free[0]].size if free else 1
        first = 0 if not free or free[0] > contracted else 1
        shape = (span.size, count) if first == 0 else (count, span.size)
        loaded = self.emit.cast(self.tiles.tile_of(value, where), self.kind)
        return self.emit.reshape(loaded, shape), first
