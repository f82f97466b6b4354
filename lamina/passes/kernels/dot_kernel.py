"""Build products of any two tensors: batches, free dimensions and one contracted pair.

The last dimension of the result is in lanes, the left operand's last free dimension in rows; the
contracted dimension goes up in chunks, one chain of fused multiply-adds for each element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from lamina.dialects import nn, tile
from lamina.dialects.dims import Dim, product
from lamina.dialects.tensors import extents
from lamina.errors import LoweringError
from lamina.passes.kernels.kernel import Kernel
from lamina.passes.kernels.register_tile import MOST_REGISTERS, TileDoesNotFit
from lamina.passes.kernels.rows import chunk_of
from lamina.passes.kernels.subscripts import Index, Span

ROWS = 4
COLUMNS = 64
"""Rows and columns of the result in a tile, unless the schedule says otherwise."""

MOST_SUMS = 16 * MOST_REGISTERS
"""Elements of a tile, each a sum in a register."""

DEPTH = 16
"""Columns of the contracted dimension that are taken at once."""


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
    """Whether a product is of one pair, and its last dimension the right operand's, f32."""
    free = len(extents(op.b.type)) - len(tile.pairs(op.batch)) - len(tile.pairs(op.contract))
    return len(tile.pairs(op.contract)) == 1 and free > 0 and nn.element(op.y) == f32


def build_dot(group: nn.GroupOp, name: str) -> tile.KernelOp:
    """Build the kernel of a group whose anchor is one `nn.dot_general`."""
    kernel = Kernel(group, name)
    return _Builder(kernel, kernel.only(nn.DotGeneralOp)).build()


class _Builder:
    def __init__(self, kernel: Kernel, op: nn.DotGeneralOp) -> None:
        self.kernel, self.op = kernel, op
        self.tiles, self.emit = kernel.tiles, kernel.emit
        self.roles = Roles.of(op)
        self.shape = extents(op.y.type)
        schedule = kernel.group.schedule
        rank, batches = len(self.shape), len(tile.pairs(op.batch))
        free_right = [i for i in self.roles.right.values() if i >= batches]
        free_left = [i for i in self.roles.left.values() if i >= batches]
        if nn.element(op.y) != f32 or not free_right or max(free_right) != rank - 1:
            raise LoweringError("a product kernel has f32 results and a free right dimension")
        asked_rows = schedule.get("m", ROWS) if schedule else ROWS
        asked_columns = schedule.get("n", COLUMNS) if schedule else COLUMNS
        if min(asked_rows, asked_columns) < 1:
            raise self._refusal(asked_rows, asked_columns, "sizes start at 1")
        self.columns = chunk_of(self.shape[-1], asked_columns)
        self.row_dim = max(free_left) if free_left else None
        self.rows = 1
        if self.row_dim is not None:
            self.rows = chunk_of(self.shape[self.row_dim], asked_rows)
        if self.rows * self.columns > MOST_SUMS:
            room = f"at most {MOST_SUMS} sums fit into registers"
            raise self._refusal(self.rows, self.columns, room)

    def _refusal(self, rows: int, columns: int, why: str) -> TileDoesNotFit:
        name = self.kernel.group.sym_name.data
        return TileDoesNotFit(f"group {name} asks for a tile of m={rows} n={columns}: {why}")

    def build(self) -> tile.KernelOp:
        """Emit one tile of the result and close the kernel."""
        last = len(self.shape) - 1
        lead = [d for d in range(last) if d != self.row_dim]
        outer = tuple(self.shape[d] for d in lead)
        at = self.kernel.unravel(self.kernel.program(2), outer) if lead else []
        index: dict[int, Span] = {d: Span(i, 1, inside=True) for d, i in zip(lead, at, strict=True)}
        rows = Dim.of(1)
        if self.row_dim is not None:
            index[self.row_dim] = self._span(1, self.rows, self.shape[self.row_dim])
            rows = self.shape[self.row_dim].ceildiv(self.rows)
        columns = self._span(0, self.columns, self.shape[last])
        held = tuple(index[d] for d in range(last))
        self.tiles.fix(self.op.y, self._accumulate((*held, columns)))
        self.kernel.store(held, columns)
        return self.kernel.finish([self.shape[last].ceildiv(self.columns), rows, product(outer)])

    def _span(self, dim: int, size: int, extent: Dim) -> Span:
        whole = extent.constant is not None and extent.constant % size == 0
        return Span(self.emit.times(self.kernel.program(dim), size), size, inside=whole)

    def _accumulate(self, index: Index) -> SSAValue:
        emit, op, roles = self.emit, self.op, self.roles
        depth = extents(op.a.type)[roles.contract[0]]
        step = chunk_of(depth, DEPTH)
        whole = depth.constant is not None and depth.constant % step == 0
        start = emit.full(0.0, f32, (self.rows, self.columns))

        def some(k: SSAValue, acc: SSAValue) -> Sequence[SSAValue]:
            span = Span(k, step, inside=whole)
            a = self._operand(op.a, roles.contract[0], roles.left, index, span)
            b = self._operand(op.b, roles.contract[1], roles.right, index, span)
            return [emit.add(tile.DotOp(a[0], b[0], acc, [(a[1], b[1])]))]

        return self.tiles.loop(emit.index(0), emit.extent(depth), emit.index(step), [start], some)[
            0
        ]

    def _operand(
        self, value: SSAValue, contracted: int, roles: dict[int, int], index: Index, span: Span
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
        loaded = self.emit.cast(self.tiles.tile_of(value, where), f32)
        return self.emit.reshape(loaded, shape), first
